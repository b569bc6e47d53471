//! Prints the probabilities of the classes: cargo run -- 0.1 0.2 0.3 0.4

use network::{probabilities, FEATURES};

fn main() {
    let x: Vec<f32> = std::env::args().skip(1).map(|x| x.parse().expect("a number")).collect();
    let x: [f32; FEATURES] = x.try_into().unwrap_or_else(|_| panic!("{FEATURES} numbers, please"));
    let words = probabilities(&x).map(|p| format!("{p:.6}"));
    println!("{}", words.join(" "));
}

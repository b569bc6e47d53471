//! Compiles `src/network.c` with the C compiler, and gives the numbers of its header to Rust.

use std::{env, fs, path::Path, process::Command};

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}

/// The value of `#define NETWORK_<name>`, without its suffix.
fn number<'a>(header: &'a str, name: &str) -> &'a str {
    let start = format!("#define NETWORK_{name} ");
    let line = header.lines().find_map(|line| line.strip_prefix(&start));
    line.unwrap_or_else(|| panic!("src/network.h has no {start}")).trim_end_matches(['u', 'l'])
}

fn main() {
    let out = env::var("OUT_DIR").unwrap();
    let folder = Path::new(&out);
    let (object, library) = (folder.join("network.o"), folder.join("libnetwork.a"));
    let compiler = env::var("CC").unwrap_or("cc".into());
    let options = ["-O2", "-ffp-contract=off", "-fPIC", "-c", "src/network.c", "-o"];
    run(Command::new(compiler).args(options).arg(&object));
    run(Command::new(env::var("AR").unwrap_or("ar".into())).arg("crs").args([&library, &object]));

    let header = fs::read_to_string("src/network.h").unwrap();
    let constants = format!(
        "const ABI: u32 = {};\nconst PROGRAM: u32 = {};\nconst ARENA_BYTES: usize = {};\n",
        number(&header, "ABI"),
        number(&header, "PROGRAM"),
        number(&header, "ARENA_BYTES"),
    );
    fs::write(folder.join("constants.rs"), constants).unwrap();
    println!("cargo:rustc-link-search=native={out}");
    println!("cargo:rustc-link-lib=static=network");
    println!("cargo:rerun-if-changed=src/network.c");
    println!("cargo:rerun-if-changed=src/network.h");
}

//! A network as a function: C that tfn exported, behind a safe signature.

use std::ffi::{c_int, c_void};

include!(concat!(env!("OUT_DIR"), "/constants.rs"));

pub const FEATURES: usize = 4;
pub const CLASSES: usize = 3;

/// `network_args` of `network.h`.
#[repr(C)]
struct Args {
    abi: u32,
    program: u32,
    arena_bytes: u64,
    x: *const f32,
    out: *mut f32,
}

/// Working memory; its alignment is `NETWORK_ARENA_ALIGNMENT`.
#[repr(C, align(64))]
struct Arena([u8; ARENA_BYTES]);

extern "C" {
    fn network(args: *const Args, arena: *mut c_void) -> c_int;
}

/// The probabilities of the classes for the features of an example.
pub fn probabilities(x: &[f32; FEATURES]) -> [f32; CLASSES] {
    let mut out = [0.0; CLASSES];
    let mut arena = Arena([0; ARENA_BYTES]);
    let args = Args {
        abi: ABI,
        program: PROGRAM,
        arena_bytes: ARENA_BYTES as u64,
        x: x.as_ptr(),
        out: out.as_mut_ptr(),
    };
    // Safety: the arrays have the shapes of the header, and the function keeps no pointer.
    let error = unsafe { network(&args, (&mut arena as *mut Arena).cast()) };
    assert_eq!(error, 0, "network.h says what the number means");
    out
}

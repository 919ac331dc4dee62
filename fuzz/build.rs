//! Links libjxl as the tests have built it, where `scripts/fuzz.sh` says that it is: building it anew for
//! fuzzing, uninstrumented as it is, takes longer than all else.

fn main() {
    println!("cargo:rerun-if-env-changed=IAC_FUZZ_LINK");
    for argument in std::env::var("IAC_FUZZ_LINK").unwrap_or_default().lines() {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
}

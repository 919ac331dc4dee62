//! The `iac` command.
fn main() {}

//! Manyhands for servers and command lines.

fn main() -> std::process::ExitCode {
    manyhands::main()
}

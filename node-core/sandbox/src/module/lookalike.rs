//! Recognizes files that are no WebAssembly modules: people pass the wrong one.

use super::refusal::Refusal;

/// Checks the first eight bytes.
pub(super) fn check_header(bytes: &[u8]) -> Result<(), Refusal> {
    match bytes {
        [b'\0', b'a', b's', b'm', 1, 0, 0, 0, ..] => Ok(()),
        // The fourth pair of bytes tells components from modules; their versions go on.
        [b'\0', b'a', b's', b'm', _, _, 1, 0, ..] => Err(Refusal::Component),
        [b'\0', b'a', b's', b'm', a, b, c, d, ..] => Err(Refusal::Invalid(format!(
            "it says it has version {}, only version 1 exists",
            u32::from_le_bytes([*a, *b, *c, *d])
        ))),
        [b'\0', b'a', b's', b'm', ..] => Err(Refusal::Invalid("it ends after its first bytes".into())),
        other => Err(Refusal::NotWasm { looks: looks(other) }),
    }
}

fn looks(bytes: &[u8]) -> String {
    let known: &[(&[u8], &str)] = &[
        (b"\x7fELF", "is a Linux program or library (ELF)"),
        (b"MZ", "is a Windows program (EXE or DLL)"),
        (b"\xcf\xfa\xed\xfe", "is a macOS program (Mach-O)"),
        (b"\xca\xfe\xba\xbe", "is a macOS program (Mach-O) or a Java class"),
        (b"!<arch>", "is a static library (ar archive)"),
        (b"BC\xc0\xde", "is LLVM bitcode, not yet linked"),
        (b"\x1f\x8b", "is compressed with gzip; unpack it first"),
        (b"\x28\xb5\x2f\xfd", "is compressed with zstd; unpack it first"),
        (b"PK\x03\x04", "is a ZIP archive; unpack it first"),
        (b"#!", "is a script"),
        (b"%PDF", "is a PDF document"),
        (b"\x89PNG", "is a PNG picture"),
        (b"<!DOCTYPE", "is an HTML page, perhaps an error page of a server"),
        (b"<html", "is an HTML page, perhaps an error page of a server"),
    ];
    if bytes.is_empty() {
        return "is empty".into();
    }
    if let Some((_, what)) = known.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return (*what).into();
    }
    let start = &bytes[..bytes.len().min(512)];
    // A cut in the middle of a character is still text.
    let text = match std::str::from_utf8(start) {
        Ok(text) => text,
        Err(e) if e.error_len().is_none() => std::str::from_utf8(&start[..e.valid_up_to()]).unwrap_or(""),
        Err(_) => "",
    };
    let is_text = |c: char| !c.is_control() || c.is_whitespace();
    if text.is_empty() || !text.chars().all(is_text) {
        let hex: Vec<String> = start.iter().take(4).map(|b| format!("{b:02x}")).collect();
        return format!("begins with the bytes {}, not with 00 61 73 6d", hex.join(" "));
    }
    let trimmed = text.trim_start();
    // Text format allows comments before the module.
    if trimmed.starts_with("(module") || (trimmed.starts_with(";;") && text.contains("(module")) {
        "is WebAssembly text (WAT); assemble it first, with wat2wasm or wasm-tools parse".into()
    } else if trimmed.starts_with("(component") {
        "is the text of a component; build a core module".into()
    } else if ["import ", "export ", "const ", "var ", "let ", "function ", "\"use strict\"", "async "]
        .iter()
        .any(|word| trimmed.starts_with(word))
    {
        "is JavaScript; pass the .wasm file beside it".into()
    } else {
        let line: String = trimmed.lines().next().unwrap_or("").chars().take(40).collect();
        format!("is text that begins with {line:?}")
    }
}

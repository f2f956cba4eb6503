//! Text from elsewhere, such as names and reasons of other nodes, on its way to a person.

/// Takes the place of each character that is not shown.
const SHOWN: char = '\u{fffd}';

/// Characters without a look of their own that change how others look or are read: marks of direction (a name
/// could turn round the rest of its line), characters of no width and blanks that look like nothing (two names
/// could look the same), and tags. Unicode's category Cf, the separators of lines, and the fillers.
/// `www/text.js` has the same list.
const MISLEADING: &[(u32, u32)] = &[
    (0x00ad, 0x00ad),
    (0x034f, 0x034f),
    (0x0600, 0x0605),
    (0x061c, 0x061c),
    (0x06dd, 0x06dd),
    (0x070f, 0x070f),
    (0x0890, 0x0891),
    (0x08e2, 0x08e2),
    (0x115f, 0x1160),
    (0x17b4, 0x17b5),
    (0x180b, 0x180f),
    (0x200b, 0x200f),
    (0x2028, 0x202e),
    (0x2060, 0x206f),
    (0x2800, 0x2800),
    (0x3164, 0x3164),
    (0xfeff, 0xfeff),
    (0xffa0, 0xffa0),
    (0xfff0, 0xfffb),
    (0x110bd, 0x110bd),
    (0x110cd, 0x110cd),
    (0x13430, 0x1343f),
    (0x1bca0, 0x1bca3),
    (0x1d173, 0x1d17a),
    (0xe0000, 0xe0fff),
];

fn misleads(c: char) -> bool {
    // Most text ends here.
    c as u32 >= 0xad && MISLEADING.iter().any(|(first, last)| (*first..=*last).contains(&(c as u32)))
}

fn without(text: &str, hidden: impl Fn(char) -> bool) -> String {
    text.chars().map(|c| if hidden(c) { SHOWN } else { c }).collect()
}

/// One line, without what a terminal takes for a command or a reader for something else.
pub(crate) fn printable(text: &str) -> String {
    without(text, |c| c.is_control() || misleads(c))
}

/// Text with lines and columns, without the same characters.
pub(crate) fn readable(text: &str) -> String {
    without(text, |c| (c.is_control() && !matches!(c, '\n' | '\t')) || misleads(c))
}

/// JSON of the same meaning, in which such characters are written as escapes.
pub(crate) fn readable_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if !misleads(c) && (!c.is_control() || matches!(c, '\n' | '\t' | '\r')) {
            out.push(c);
            continue;
        }
        // JSON knows the units of UTF-16 only. Such characters stand within strings alone.
        for unit in c.encode_utf16(&mut [0; 2]) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    out
}

/// Reason of a failed access to a file or folder, without the system's number for it.
pub(crate) fn io_error(e: &std::io::Error) -> String {
    use std::io::ErrorKind;
    let known = match e.kind() {
        ErrorKind::NotFound => "no such file or folder",
        ErrorKind::PermissionDenied => "this user may not (permission denied)",
        ErrorKind::IsADirectory => "it is a folder",
        ErrorKind::NotADirectory => "a part of its path is a file and no folder",
        ErrorKind::StorageFull => "the disk is full",
        ErrorKind::ReadOnlyFilesystem => "the file system takes no changes",
        _ => {
            let text = e.to_string();
            return text.split(" (os error ").next().unwrap_or(&text).to_owned();
        }
    };
    known.to_owned()
}

/// A log's bytes, colours included: its writer has escaped control characters already.
pub(crate) fn readable_log(bytes: &[u8]) -> Vec<u8> {
    without(&String::from_utf8_lossy(bytes), misleads).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_are_told_without_numbers() {
        let gone = std::fs::read("/no/such/file").unwrap_err();
        assert_eq!(io_error(&gone), "no such file or folder");
        assert_eq!(io_error(&std::fs::read("/").unwrap_err()), "it is a folder");
        let odd = std::io::Error::from_raw_os_error(36);
        assert!(odd.to_string().contains("os error") && !io_error(&odd).contains("os error"), "{odd}");
    }

    #[test]
    fn what_misleads_shows_itself() {
        for c in
            ['\u{61c}', '\u{200b}', '\u{200e}', '\u{200f}', '\u{feff}', '\u{e0041}', '\u{3164}', '\u{2028}']
        {
            assert_eq!(printable(&format!("a{c}b")), "a\u{fffd}b", "{:x}", c as u32);
        }
        for c in ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}') {
            assert_eq!(printable(&format!("exe{c}gpj")), "exe\u{fffd}gpj", "{:x}", c as u32);
        }
        assert_eq!(printable("\u{1b}[2J\r\n\u{9b}"), "\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd}");
    }

    #[test]
    fn names_in_all_scripts_stay_what_they_are() {
        for name in ["Füße", "שלום", "مرحبا", "こんにちは", "नमस्ते", "สวัสดี", "🖐️", "a b-c_d.e"]
        {
            assert_eq!(printable(name), name);
        }
    }

    #[test]
    fn text_keeps_its_lines() {
        assert_eq!(readable("a\tb\nc\u{202e}d\r"), "a\tb\nc\u{fffd}d\u{fffd}");
        assert_eq!(
            readable_log("\u{1b}[2mx\u{202e}\u{1b}[0m\n".as_bytes()),
            "\u{1b}[2mx\u{fffd}\u{1b}[0m\n".as_bytes()
        );
    }

    #[test]
    fn json_means_the_same() {
        let json = serde_json::json!({"name": "a\u{202e}b\u{e0041}\u{7f}ü"});
        let shown = readable_json(&json.to_string());
        assert_eq!(shown, "{\"name\":\"a\\u202eb\\udb40\\udc41\\u007fü\"}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), json);
    }
}

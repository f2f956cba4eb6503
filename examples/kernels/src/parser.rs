//! A lexer: one large switch over the next byte.

#[derive(Default)]
struct Seen {
    numbers: i64,
    names: i64,
    operators: i64,
    sum: i64,
}

fn lex(text: &[u8]) -> Seen {
    let mut seen = Seen::default();
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b' ' | b'\n' | b'\t' => at += 1,
            b'0'..=b'9' => {
                let mut value = 0i64;
                while at < text.len() && text[at].is_ascii_digit() {
                    value = value.wrapping_mul(10).wrapping_add(i64::from(text[at] - b'0'));
                    at += 1;
                }
                seen.sum = seen.sum.wrapping_add(value);
                seen.numbers += 1;
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let begin = at;
                while at < text.len() && (text[at].is_ascii_alphanumeric() || text[at] == b'_') {
                    at += 1;
                }
                seen.names += (at - begin) as i64;
            }
            b'"' => {
                at += 1;
                while at < text.len() && text[at] != b'"' {
                    at += if text[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            b'/' if text.get(at + 1) == Some(&b'/') => {
                seen.operators += 4;
                while at < text.len() && text[at] != b'\n' {
                    at += 1;
                }
            }
            sign => {
                match sign {
                    b'+' => seen.operators += 1,
                    b'-' => seen.operators += 2,
                    b'*' => seen.operators += 3,
                    b'/' => seen.operators += 4,
                    b'=' => seen.operators += 11,
                    b'<' => seen.operators += 12,
                    b'>' => seen.operators += 13,
                    b';' => seen.operators ^= 1,
                    b'(' => seen.sum ^= 5,
                    b')' => seen.sum ^= 9,
                    b'{' => seen.sum += 7,
                    b'}' => seen.sum -= 7,
                    _ => {}
                }
                at += 1;
            }
        }
    }
    seen
}

const PROGRAM: &[u8] = b"fn main() { let x_1 = 123 + 4567 * foo(89, \"str\\\"ing\"); // comment here
 if x_1 < 10 { print(x_1); } else { y = (x_1 - 5) / 7; } }
";

pub(crate) fn run(rounds: u32) -> i64 {
    let text = PROGRAM.repeat(64);
    let mut digest = 0i64;
    for round in 0..rounds {
        let Seen { numbers, names, operators, sum } = lex(&text[round as usize % 100..]);
        digest = digest.wrapping_mul(7).wrapping_add(numbers ^ names ^ operators ^ sum);
    }
    digest
}

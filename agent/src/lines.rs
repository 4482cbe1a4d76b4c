//! What programs say, cut into lines and read: `name value`. Lines that are too long, or no such lines, are counted.

use starfarm_agent_core::named::is_name;

/// Bytes of a line, at most.
const LINE_BYTES_MAX: usize = 4_096;

/// What was printed and is no whole line yet.
#[derive(Default)]
pub struct Lines {
    rest: Vec<u8>,
    /// The line is too long: what comes before its end is passed over.
    passes_over: bool,
}

impl Lines {
    /// More was printed; `take` hears each value by its name. Returns the number of lines that were none.
    pub fn read(&mut self, mut bytes: &[u8], mut take: impl FnMut(&str, f64)) -> u64 {
        let mut bad = 0;
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (piece, after) = (&bytes[..end], &bytes[end + 1..]);
            bad += self.add(piece);
            if !std::mem::take(&mut self.passes_over) {
                match value(&self.rest) {
                    Ok(Some((name, value))) => take(name, value),
                    Ok(None) => {}
                    Err(()) => bad += 1,
                }
            }
            self.rest.clear();
            bytes = after;
        }
        bad + self.add(bytes)
    }

    /// Adds to the line; 1 where that makes it too long.
    fn add(&mut self, piece: &[u8]) -> u64 {
        if self.passes_over {
            return 0;
        }
        if self.rest.len() + piece.len() > LINE_BYTES_MAX {
            self.passes_over = true;
            self.rest.clear();
            return 1;
        }
        self.rest.extend_from_slice(piece);
        0
    }
}

/// A line's name and value; none of an empty one.
pub(crate) fn value(line: &[u8]) -> Result<Option<(&str, f64)>, ()> {
    let line = std::str::from_utf8(line).map_err(drop)?;
    let mut words = line.split_ascii_whitespace();
    let Some(name) = words.next() else { return Ok(None) };
    let (Some(value), None) = (words.next(), words.next()) else { return Err(()) };
    let value = value.parse().ok().filter(|value: &f64| value.is_finite());
    value.filter(|_| is_name(name)).map(|value| Some((name, value))).ok_or(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// What comes of pieces, and how many lines were none.
    fn read(pieces: &[&[u8]]) -> (Vec<String>, u64) {
        let (mut lines, mut values, mut bad) = (Lines::default(), Vec::new(), 0);
        for piece in pieces {
            bad += lines.read(piece, |name, value| values.push(format!("{name}={value}")));
        }
        (values, bad)
    }

    #[test]
    fn lines_are_names_and_numbers_in_whatever_pieces_they_come() {
        let all = b"temperature 3.2\n\nfan.1 -7\r\n a_b-c  1e3 \n";
        let (values, bad) = read(&[all]);
        assert_eq!((values.join(" "), bad), ("temperature=3.2 fan.1=-7 a_b-c=1000".to_owned(), 0));
        let single: Vec<&[u8]> = all.chunks(1).collect();
        assert_eq!(read(&single), (values, 0));
        assert_eq!(read(&[b"no-end 1"]), (Vec::new(), 0));
    }

    #[test]
    fn what_is_no_such_line_is_counted_and_the_next_one_is_read() {
        let long = [&vec![b'x'; 1 << 20][..], b" 1\n"].concat();
        let name = format!("{} 1\n", "x".repeat(65));
        let cases: [&[u8]; 9] = [
            b"temperature\n",
            b"temperature 1 2\n",
            b"temperature warm\n",
            b"temperature nan\n",
            b"temperature inf\n",
            b"a/b 1\n",
            b"\xff\xfe\x00 1\n",
            &long,
            name.as_bytes(),
        ];
        for case in cases {
            let (values, bad) = read(&[case, b"x 1\n"]);
            assert_eq!(
                (values.join(" "), bad),
                ("x=1".to_owned(), 1),
                "{}",
                String::from_utf8_lossy(&case[..8])
            );
        }
    }

    #[test]
    fn a_line_without_an_end_takes_no_memory() {
        let mut lines = Lines::default();
        let bad: u64 = (0..1_000).map(|_| lines.read(&[b'y'; 65_536], |_, _| unreachable!())).sum();
        assert_eq!(bad, 1);
        assert!(lines.rest.capacity() <= 2 * LINE_BYTES_MAX);
    }
}

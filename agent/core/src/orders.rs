//! Orders as people write them: one line each, in a stage's settings or from afar.
//!
//! | order | does |
//! | --- | --- |
//! | `create NAME TYPE` | makes a stage |
//! | `end STAGE` | ends one, with its edges |
//! | `name STAGE NAME` | gives it another name |
//! | `set STAGE KEY VALUE` | tells it a setting; the value is the rest of the line |
//! | `link STAGE.OUTPUT STAGE.INPUT`, `unlink` the same | makes an edge, takes it away |
//! | `timer NAME every SECONDS`, `timer NAME after SECONDS` | makes a timer, or sets it anew |
//! | `end-timer NAME` | ends it |
//! | `subscribe TIMER STAGE`, `unsubscribe TIMER STAGE` | has it fire for the stage, or no more |

use std::str::FromStr;

use crate::words::{Order, When, Who, Word};

/// Longest period or delay, in seconds.
const SECONDS_MAX: f64 = 1e9;
/// Characters of what is wrong that are shown.
const SHOWN_MAX: usize = 64;

/// How each order is written.
const FORMS: [&str; 11] = [
    "create NAME TYPE",
    "end STAGE",
    "name STAGE NAME",
    "set STAGE KEY VALUE",
    "link STAGE.OUTPUT STAGE.INPUT",
    "unlink STAGE.OUTPUT STAGE.INPUT",
    "timer NAME every SECONDS",
    "timer NAME after SECONDS",
    "end-timer NAME",
    "subscribe TIMER STAGE",
    "unsubscribe TIMER STAGE",
];

impl FromStr for Order {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let line = line.trim();
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["create", name, of] => {
                Ok(Self::Create { type_name: of.to_owned(), name: Some(name.to_owned()) })
            }
            ["end", stage] => Ok(Self::End(Who::from(stage))),
            ["name", stage, name] => Ok(Self::Name(Who::from(stage), name.to_owned())),
            ["set", stage, key, _, ..] => {
                let value = after(line, &["set", stage, key]);
                let word = Word::Set { key: key.to_owned(), value: value.to_owned() };
                Ok(Self::Tell(Who::from(stage), word))
            }
            ["link", from, to] => Ok(Self::Link(end_of(from)?, end_of(to)?)),
            ["unlink", from, to] => Ok(Self::Unlink(end_of(from)?, end_of(to)?)),
            ["timer", name, "every", seconds] => {
                Ok(Self::Timer(name.to_owned(), When::Every(microseconds(seconds)?)))
            }
            ["timer", name, "after", seconds] => {
                Ok(Self::Timer(name.to_owned(), When::After(microseconds(seconds)?)))
            }
            ["end-timer", name] => Ok(Self::EndTimer(name.to_owned())),
            ["subscribe", timer, stage] => Ok(Self::Subscribe(timer.to_owned(), Who::from(stage), true)),
            ["unsubscribe", timer, stage] => Ok(Self::Subscribe(timer.to_owned(), Who::from(stage), false)),
            _ => Err(no_order(line, words.first().copied())),
        }
    }
}

/// The line behind these words.
fn after<'a>(line: &'a str, words: &[&str]) -> &'a str {
    words.iter().fold(line, |rest, word| rest[word.len()..].trim_start())
}

fn end_of(text: &str) -> Result<(Who, String), String> {
    let (stage, hook) = text
        .split_once('.')
        .ok_or_else(|| format!("`{}` is no end of an edge: write STAGE.OUTPUT, STAGE.INPUT", shown(text)))?;
    Ok((Who::from(stage), hook.to_owned()))
}

fn microseconds(text: &str) -> Result<u64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds));
    let us = seconds.map(|seconds: f64| (seconds * 1e6).round() as u64);
    us.ok_or_else(|| format!("`{}` is no number of seconds, up to {SECONDS_MAX}", shown(text)))
}

/// Says how it is to be written: as the order with the same verb, or as any.
fn no_order(line: &str, verb: Option<&str>) -> String {
    let is_meant = |form: &&str| form.split(' ').next() == verb;
    let meant: Vec<_> = FORMS.into_iter().filter(is_meant).collect();
    let forms = if meant.is_empty() { &FORMS[..] } else { &meant };
    format!("`{}` is no order: write {}", shown(line), forms.join(", or "))
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_order_is_read() {
        let end = |stage: &str, hook: &str| (Who::from(stage), hook.to_owned());
        let set =
            |value: &str| Order::Tell(Who::from("f"), Word::Set { key: "match".into(), value: value.into() });
        for (line, order) in [
            ("create f filter", Order::Create { type_name: "filter".into(), name: Some("f".into()) }),
            ("end f", Order::End("f".into())),
            ("name f g", Order::Name("f".into(), "g".into())),
            ("set f match cpu", set("cpu")),
            ("  set \tf  match   cpu,  memory ", set("cpu,  memory")),
            ("link cpuload.out f.in", Order::Link(end("cpuload", "out"), end("f", "in"))),
            ("unlink cpuload.out f.a.b", Order::Unlink(end("cpuload", "out"), end("f", "a.b"))),
            ("timer t every 0.1", Order::Timer("t".into(), When::Every(100_000))),
            ("timer t after 60", Order::Timer("t".into(), When::After(60_000_000))),
            ("end-timer t", Order::EndTimer("t".into())),
            ("subscribe t f", Order::Subscribe("t".into(), "f".into(), true)),
            ("unsubscribe t f", Order::Subscribe("t".into(), "f".into(), false)),
        ] {
            assert_eq!(line.parse(), Ok(order), "{line}");
        }
    }

    #[test]
    fn what_is_none_is_refused_with_the_way_it_is_written() {
        let refused = |line: &str| line.parse::<Order>().unwrap_err();
        assert_eq!(
            refused("timer t"),
            "`timer t` is no order: write timer NAME every SECONDS, or timer NAME after SECONDS"
        );
        assert_eq!(refused("set f match"), "`set f match` is no order: write set STAGE KEY VALUE");
        assert_eq!(
            refused("link cpuload f.in"),
            "`cpuload` is no end of an edge: write STAGE.OUTPUT, STAGE.INPUT"
        );
        for bad in ["-1", "NaN", "inf", "1e10", "soon"] {
            assert_eq!(
                refused(&format!("timer t every {bad}")),
                format!("`{bad}` is no number of seconds, up to 1000000000")
            );
        }
        for none in ["", "jump", "END f", &"x".repeat(5_000)] {
            let why = refused(none);
            assert!(why.contains("is no order: write create NAME TYPE, or end STAGE"), "{why}");
            assert!(why.len() < 400, "{why}");
        }
        for line in ["create f", "end", "name f", "set f", "link a.b", "subscribe t", "end-timer"] {
            let verb = line.split(' ').next().unwrap();
            assert!(refused(line).contains(&format!("write {verb} ")), "{line}");
        }
    }
}

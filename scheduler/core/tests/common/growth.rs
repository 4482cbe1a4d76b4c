//! What scripts say of jobs whose units a program names.

use starfarm_protocol::ids::{ContentHash, JobId};
use starfarm_protocol::journal::record::GrownChunk;

use super::Bench;
use super::line::{Line, parse};

impl Bench {
    pub(super) fn grow(&mut self, line: &Line<'_>) {
        let id = JobId(line.number(1));
        let known = self.farm.job(id, 0).map_or(0, |job| job.units_total.0);
        let from = line.after("from").map_or(known, parse);
        let words = line.word(2).split(',').filter(|word| *word != "none");
        let chunk = |(at, word): (usize, &str)| {
            let (units, cost) = word.split_once('x').unwrap_or((word, "1"));
            let cost = parse::<u64>(cost) * 1_000_000;
            GrownChunk { hash: ContentHash([at as u8 + 1; 32]), units: parse(units), cost }
        };
        let grown = (
            words.enumerate().map(chunk).collect(),
            line.after("state").unwrap_or("null").to_owned(),
            line.has("end"),
        );
        self.with_deeds(|farm, now_us, deeds| {
            (!farm.grow(id, from, grown, now_us, deeds)).then(|| "grow: does not count".to_owned())
        });
    }

    pub(super) fn print_wish(&mut self, line: &Line<'_>) {
        let wish = self.farm.wish(JobId(line.number(1)));
        let said = wish.map_or_else(
            || "no wish".to_owned(),
            |wish| format!("wish: {} behind {}, state {}", wish.next, wish.units, wish.state),
        );
        self.tell(&said);
    }
}

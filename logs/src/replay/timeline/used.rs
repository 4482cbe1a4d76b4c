//! What a job's units used over time, as the log tells it minute by minute: cores, for a line below the job's bar.

use serde::Serialize;
use starfarm_events::JobUsage;
use starfarm_protocol::admin::UsageSpan;

use crate::json::json_object;

/// Spans of a job, at most: where there are more, two that follow each other become one.
const SPANS_MAX: usize = 64;

/// Processor cores of a job over time; the lists are as long as each other.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct CoresUsed {
    /// When each span began and ended, in microseconds of the farm's clock.
    pub from_us: Vec<u64>,
    /// See `from_us`.
    pub to_us: Vec<u64>,
    /// The mean of all units together.
    pub cores: Vec<f32>,
    /// The least and the greatest of a unit.
    pub min: Vec<f32>,
    /// See `min`.
    pub max: Vec<f32>,
}

/// What is told of a job's use.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Used {
    spans: Vec<(u64, u64, [f32; 3])>,
    /// So many of what the log tells are in a span.
    joined: usize,
    /// Those of the span at hand.
    at_hand: usize,
    /// The fields of what was told of its whole life.
    pub(super) life: Option<serde_json::Map<String, serde_json::Value>>,
}

impl Used {
    /// The log tells of it.
    pub(super) fn add(&mut self, at_us: u64, usage: &JobUsage) {
        let is_life = usage.over == UsageSpan::Life;
        if is_life {
            self.life = Some(json_object(usage));
        }
        // A short job has no minutes.
        let (Some(cores), false) = (usage.cpu_cores_sum, is_life && !self.spans.is_empty()) else { return };
        let of_unit = |figure: Option<f64>| figure.unwrap_or(cores) as f32;
        let figures = [cores as f32, of_unit(usage.cpu_cores_min), of_unit(usage.cpu_cores_max)];
        let before_us = self.spans.last().map_or(0, |(_, to_us, _)| *to_us);
        self.push((at_us.saturating_sub(usage.for_us).max(before_us), at_us, figures));
    }

    fn push(&mut self, span: (u64, u64, [f32; 3])) {
        if self.at_hand > 0 && self.at_hand < self.joined.max(1) {
            let last = self.spans.last_mut().expect("one is at hand");
            *last = join(*last, span);
            self.at_hand += 1;
            return;
        }
        if self.spans.len() == SPANS_MAX {
            self.spans = self
                .spans
                .chunks(2)
                .map(|two| two.iter().copied().reduce(join).expect("one or two"))
                .collect();
            self.joined = self.joined.max(1) * 2;
        }
        self.spans.push(span);
        self.at_hand = 1;
    }

    pub(super) fn finish(&self) -> Option<CoresUsed> {
        if self.spans.is_empty() {
            return None;
        }
        let mut used = CoresUsed::default();
        for (from_us, to_us, [cores, min, max]) in &self.spans {
            used.from_us.push(*from_us);
            used.to_us.push(*to_us);
            used.cores.push(*cores);
            used.min.push(*min);
            used.max.push(*max);
        }
        Some(used)
    }
}

type Span = (u64, u64, [f32; 3]);

/// One of two that follow each other: the mean goes by how long each was.
fn join(a: Span, b: Span) -> Span {
    let (long_a, long_b) = ((a.1 - a.0) as f32, b.1.saturating_sub(b.0) as f32);
    let mean = (a.2[0] * long_a + b.2[0] * long_b) / (long_a + long_b).max(1.0);
    (a.0, b.1, [mean, a.2[1].min(b.2[1]), a.2[2].max(b.2[2])])
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::ids::JobId;

    use super::*;

    const MINUTE_US: u64 = 60_000_000;

    fn told(over: UsageSpan, cores: f64) -> JobUsage {
        let figure = Some(cores);
        JobUsage {
            job: JobId(1),
            over,
            for_us: MINUTE_US,
            cpu_cores_sum: figure,
            cpu_cores_max: figure,
            ..JobUsage::default()
        }
    }

    #[test]
    fn a_long_job_has_fewer_and_longer_spans() {
        let mut used = Used::default();
        (1..=1_000)
            .for_each(|minute| used.add(minute * MINUTE_US, &told(UsageSpan::Minute, (minute % 2) as f64)));
        let cores = used.finish().unwrap();
        assert!((33..=SPANS_MAX).contains(&cores.cores.len()), "{}", cores.cores.len());
        assert_eq!((cores.from_us[0], *cores.to_us.last().unwrap()), (0, 1_000 * MINUTE_US));
        assert!(cores.cores.iter().all(|cores| (cores - 0.5).abs() < 0.01), "{:?}", cores.cores);
        assert!(
            cores.from_us.iter().skip(1).eq(cores.to_us.iter().take(cores.to_us.len() - 1)),
            "without gaps"
        );
    }

    #[test]
    fn the_life_of_a_job_is_drawn_where_it_has_no_minutes() {
        let mut short = Used::default();
        short.add(9 * MINUTE_US, &told(UsageSpan::Life, 2.0));
        assert_eq!(short.finish().unwrap().from_us, [8 * MINUTE_US]);
        let mut long = Used::default();
        long.add(8 * MINUTE_US, &told(UsageSpan::Minute, 1.0));
        long.add(9 * MINUTE_US, &told(UsageSpan::Life, 2.0));
        assert_eq!(long.finish().unwrap().cores, [1.0]);
        assert!(long.life.is_some() && Used::default().finish().is_none());
    }
}

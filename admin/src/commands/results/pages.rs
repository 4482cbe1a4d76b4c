//! Results page by page, and the contents of long outputs. How they are shown is next door.

use starfarm_protocol::admin::{FailedInfo, HitInfo, LostOutputs, OutputInfo, ResultsPage};
use starfarm_protocol::unit_set::UnitSet;
use starfarm_protocol::units::Units;

use super::beneath::There;
use super::files::Folder;
use super::source::{Source, fill};
use crate::cli::Wanted;
use crate::failure::Failure;

/// Outputs that are held to be put in order: more come as they came in, lest a person wait or memory grow with the job.
pub(super) const ORDERED_MAX: usize = 100_000;

/// What became of the outputs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Seen {
    /// Outputs of which a part was left out by the job's limit.
    pub(super) cut: u64,
    /// Files that units made.
    pub(super) files: u64,
    /// Outputs that should be there, by unit.
    pub(super) lost: Vec<LostOutputs>,
}

/// The results of one job, one kind after another. Each kind is walked through anew, since a page holds
/// some of each; most jobs have one kind only, and the others end on the first page, which is kept.
pub(super) struct Pages<'a> {
    source: &'a mut dyn Source,
    first: ResultsPage,
    wanted: Wanted,
    /// Only these, if not all.
    units: Option<UnitSet>,
    /// Where files go, if they are wanted.
    folder: Option<&'a Folder>,
}

impl<'a> Pages<'a> {
    pub(super) fn new(source: &'a mut dyn Source, wanted: Wanted) -> Result<Self, Failure> {
        let first = source.page(0)?;
        Ok(Self { source, first, wanted, units: None, folder: None })
    }

    /// Only these units are of interest, if not all.
    pub(super) fn only(self, units: Option<UnitSet>) -> Self {
        Self { units, ..self }
    }

    /// Files go there.
    pub(super) fn into_folder(self, folder: Option<&'a Folder>) -> Self {
        Self { folder, ..self }
    }

    /// Whether there is nothing at all.
    pub(super) fn are_empty(&self) -> bool {
        longest(&self.first) == 0 && self.first.outputs_of_done == 0
    }

    /// Shows `visit` the hits, a page at a time.
    pub(super) fn hits(
        &mut self,
        mut visit: impl FnMut(Vec<HitInfo>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let units = self.units.clone();
        let is_wanted = |hit: &HitInfo| units.as_ref().is_none_or(|units| units.contains(hit.unit.0));
        self.walk(
            |page| (std::mem::take(&mut page.hits), 0),
            |_, page, _| visit(page.into_iter().filter(is_wanted).collect()),
        )
    }

    /// Shows `visit` the failed units, a page at a time.
    pub(super) fn failed(
        &mut self,
        mut visit: impl FnMut(Vec<FailedInfo>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let units = self.units.clone();
        let is_wanted = |of: &FailedInfo| units.as_ref().is_none_or(|units| units.contains(of.unit.0));
        self.walk(
            |page| (std::mem::take(&mut page.failed), 0),
            |_, page, _| visit(page.into_iter().filter(is_wanted).collect()),
        )
    }

    /// Shows `visit` the outputs one by one, with the contents of long ones in place.
    pub(super) fn outputs(
        &mut self,
        mut visit: impl FnMut(OutputInfo) -> Result<(), Failure>,
    ) -> Result<Seen, Failure> {
        let (wanted, folder, units) = (self.wanted, self.folder, self.units.clone());
        let (mut cut, mut files, mut bad) = (0, 0, Vec::new());
        let mut held = Vec::new();
        let mut is_holding = !wanted.arrival;
        let mut show = |source: &mut dyn Source, mut output: OutputInfo| {
            fill(source, &mut output.stdout)?;
            fill(source, &mut output.stderr)?;
            let is_cut = [&output.stdout, &output.stderr].iter().any(|stream| stream.kept < stream.total);
            cut += u64::from(is_cut);
            for of in &mut output.files {
                files += u64::from(of.count);
                if let Some(folder) = folder.filter(|_| !output.superseded) {
                    of.lost = folder.take(source, of, There::Stays)?;
                }
            }
            let files_lost = output.files.iter().find_map(|files| files.lost);
            if let Some(what) = output.stdout.lost.or(output.stderr.lost).or(files_lost) {
                let (lo, superseded) = (output.unit, output.superseded);
                bad.push(LostOutputs {
                    lo,
                    hi: Units(lo.0.saturating_add(output.units.0)),
                    what,
                    superseded,
                });
            }
            visit(output)
        };
        self.walk(
            |page| (std::mem::take(&mut page.outputs), page.outputs_damaged),
            |source, page, _| {
                for output in page {
                    let is_meant = units.as_ref().is_none_or(|units| touches(units, &output));
                    if output.superseded && !wanted.all || !is_meant {
                        continue;
                    }
                    held.push(output);
                    is_holding &= held.len() <= ORDERED_MAX;
                    if !is_holding {
                        held.drain(..).try_for_each(|output| show(source, output))?;
                    }
                }
                Ok(())
            },
        )?;
        // Runs of one unit stay in their order.
        held.sort_by_key(|output| output.unit);
        held.into_iter().try_for_each(|output| show(self.source, output))?;
        Ok(Seen { cut, files, lost: self.lost(bad)? })
    }

    /// The outputs that should be there and are not, `bad` ones among them: what the scheduler found whole when it was first
    /// read may be damaged since.
    pub(super) fn lost(&mut self, bad: Vec<LostOutputs>) -> Result<Vec<LostOutputs>, Failure> {
        let ResultsPage { failed, outputs, outputs_damaged, outputs_of_done, .. } = &self.first;
        if failed.is_empty() && outputs.is_empty() && outputs_damaged + outputs_of_done == 0 {
            return Ok(Vec::new());
        }
        let all = self.wanted.all;
        let (mut lost, mut more) = self.source.lost(all, 0)?;
        while more {
            let (page, goes_on) = self.source.lost(all, lost.len() as u64)?;
            more = goes_on && !page.is_empty();
            lost.extend(page);
        }
        let mut told = [false, true].map(|superseded| -> UnitSet {
            let of = lost.iter().filter(|lost| lost.superseded == superseded);
            of.map(|lost| (lost.lo.0, lost.hi.0)).collect()
        });
        for bad in bad {
            let told = &mut told[usize::from(bad.superseded)];
            if !told.contains(bad.lo.0) {
                told.insert(bad.lo.0, bad.hi.0);
                lost.push(bad);
            }
        }
        if let Some(units) = &self.units {
            lost.retain(|lost| units.overlaps(lost.lo.0, lost.hi.0));
        }
        lost.sort_by_key(|lost| (lost.lo, lost.superseded));
        Ok(lost)
    }

    /// `take` takes the items of a kind from a page, and says how many more of it are damaged.
    fn walk<T>(
        &mut self,
        take: impl Fn(&mut ResultsPage) -> (Vec<T>, u64),
        mut visit: impl FnMut(&mut dyn Source, Vec<T>, u64) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut skip = 0;
        loop {
            let mut page = if skip == 0 { self.first.clone() } else { self.source.page(skip)? };
            let stride = longest(&page);
            let (items, damaged) = take(&mut page);
            let is_last = !page.more || items.len() as u64 + damaged < stride || stride == 0;
            if !items.is_empty() || damaged > 0 {
                visit(self.source, items, damaged)?;
            }
            if is_last {
                return Ok(());
            }
            skip += stride;
        }
    }
}

/// The run computed some of these units.
pub(super) fn touches(units: &UnitSet, output: &OutputInfo) -> bool {
    units.overlaps(output.unit.0, output.unit.0.saturating_add(output.units.0))
}

/// Every kind that goes on has this many items in the page, one that has fewer has ended.
fn longest(page: &ResultsPage) -> u64 {
    let outputs = page.outputs.len() as u64 + page.outputs_damaged;
    (page.hits.len().max(page.failed.len()) as u64).max(outputs)
}

#[cfg(test)]
pub(super) mod testing {
    //! A made-up job with as many results of each kind as a test wants.

    use super::*;
    use starfarm_protocol::admin::{OutputLoss, StreamInfo};
    use starfarm_protocol::ids::ContentHash;
    use starfarm_protocol::wire::FailReason;

    /// A job of `hits`, `failed` and `outputs` results, `cap` of each kind a page.
    #[derive(Default)]
    pub(in crate::commands::results) struct Fake {
        pub(in crate::commands::results) hits: u64,
        pub(in crate::commands::results) failed: u64,
        pub(in crate::commands::results) outputs: u64,
        pub(in crate::commands::results) cap: u64,
        /// What a long output's content is; of every output, if it is set.
        pub(in crate::commands::results) long: Option<Vec<u8>>,
        /// And it is not there when it is asked for.
        pub(in crate::commands::results) gone: bool,
        /// Who ran its units is forgotten.
        pub(in crate::commands::results) forgotten: bool,
        pub(in crate::commands::results) asked: u64,
        /// Units whose output is of a run that does not count any more.
        pub(in crate::commands::results) superseded: Vec<u64>,
        /// The last output is another run of this unit, which has one already.
        pub(in crate::commands::results) again: Option<u64>,
        /// Units come in the other way round.
        pub(in crate::commands::results) backwards: bool,
        pub(in crate::commands::results) damaged: u64,
        /// So many outputs have not come in yet.
        pub(in crate::commands::results) hidden: u64,
        /// So many units are done, whatever is left of their outputs.
        pub(in crate::commands::results) done: u64,
        /// What the scheduler says is lost.
        pub(in crate::commands::results) lost: Vec<LostOutputs>,
    }

    impl Fake {
        pub(in crate::commands::results) fn new(hits: u64, failed: u64, outputs: u64) -> Self {
            Self { hits, failed, outputs, cap: 2, ..Self::default() }
        }

        pub(in crate::commands::results) fn output(&self, unit: u64) -> OutputInfo {
            let text = format!("out {unit}\n");
            let length = text.len() as u64;
            let empty = StreamInfo {
                text: String::new(),
                hex: None,
                hash: None,
                lost: None,
                kept: 0,
                total: 0,
                cut_at: None,
            };
            let short = StreamInfo { text, kept: length, total: length, ..empty.clone() };
            let stdout = self.long.as_ref().map_or(short, |content| StreamInfo {
                hash: Some(ContentHash::of(content)),
                kept: content.len() as u64,
                total: content.len() as u64 + 5,
                cut_at: Some(4),
                ..empty.clone()
            });
            OutputInfo {
                unit: Units(unit.into()),
                units: Units::one(),
                attempt: unit + 100,
                run: 1,
                node: (!self.forgotten).then(|| "n1".into()),
                failed: None,
                superseded: self.superseded.contains(&unit),
                exit_code: Some(0),
                signal: None,
                seconds: 0.25,
                stdout,
                stderr: empty,
                files: Vec::new(),
            }
        }
    }

    impl Fake {
        /// The output at a place, where units come in their order.
        fn run(&self, place: u64) -> OutputInfo {
            let has_both = self.hidden == 0;
            match self.again {
                Some(unit) if place + 1 == self.outputs => {
                    let mut output = self.output(unit);
                    output.stdout.text = format!("again {unit}\n");
                    output
                }
                Some(unit) if place == unit => OutputInfo { superseded: has_both, ..self.output(unit) },
                _ => self.output(place),
            }
        }
    }

    impl Source for Fake {
        fn page(&mut self, skip: u64) -> Result<ResultsPage, Failure> {
            self.asked += 1;
            let window = |total: u64| skip.min(total)..(skip + self.cap).min(total);
            let hit = |unit: u64| HitInfo {
                unit: Units(unit.into()),
                value: format!("word{unit}"),
                value_hex: None,
                target: "00ff".into(),
            };
            let failed = |unit: u64| FailedInfo {
                unit: Units(unit.into()),
                reason: FailReason::Exit,
                exit_code: Some(3),
                signal: None,
                node: Some("n1".into()),
            };
            Ok(ResultsPage {
                hits: window(self.hits).map(hit).collect(),
                failed: window(self.failed).map(failed).collect(),
                outputs: window(self.outputs - self.hidden)
                    .map(|place| if self.backwards { self.outputs - 1 - place } else { place })
                    .map(|unit| self.run(unit))
                    .collect(),
                outputs_damaged: if skip == 0 { self.damaged } else { 0 },
                outputs_of_done: self.outputs.max(self.done),
                more: skip + self.cap < self.hits.max(self.failed).max(self.outputs),
            })
        }

        fn lost(&mut self, all: bool, skip: u64) -> Result<(Vec<LostOutputs>, bool), Failure> {
            let lost: Vec<_> = self.lost.iter().filter(|lost| all || !lost.superseded).copied().collect();
            let rest = &lost[(skip as usize).min(lost.len())..];
            Ok((rest.iter().take(2).copied().collect(), rest.len() > 2))
        }

        fn piece(&mut self, hash: ContentHash, offset: u64) -> Result<Result<Vec<u8>, OutputLoss>, Failure> {
            let content = self.long.as_ref().filter(|content| !self.gone && ContentHash::of(content) == hash);
            let Some(content) = content else { return Ok(Err(OutputLoss::Missing)) };
            let rest = &content[(offset as usize).min(content.len())..];
            Ok(Ok(rest[..rest.len().min(3)].to_vec()))
        }
    }
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::admin::{OutputLoss, StreamInfo};
    use starfarm_protocol::ids::{ContentHash, to_hex};

    use super::testing::Fake;
    use super::*;

    fn walked(fake: &mut Fake) -> [Vec<Units>; 3] {
        let [mut hits, mut failed, mut outputs] = [vec![], vec![], vec![]];
        let mut pages = Pages::new(fake, Wanted::default()).unwrap();
        let add_hits = |page: Vec<HitInfo>| {
            hits.extend(page.into_iter().map(|hit| hit.unit));
            Ok(())
        };
        pages.hits(add_hits).unwrap();
        let add_failed = |page: Vec<FailedInfo>| {
            failed.extend(page.into_iter().map(|unit| unit.unit));
            Ok(())
        };
        pages.failed(add_failed).unwrap();
        let add_output = |output: OutputInfo| {
            outputs.push(output.unit);
            Ok(())
        };
        pages.outputs(add_output).unwrap();
        [hits, failed, outputs]
    }

    #[test]
    fn every_result_is_seen_once_and_in_order() {
        for hits in 0..6 {
            for failed in 0..6 {
                for outputs in 0..6 {
                    let numbers = |count: u64| (0..count).map(|unit| Units(unit.into())).collect::<Vec<_>>();
                    let mut fake = Fake::new(hits, failed, outputs);
                    assert_eq!(walked(&mut fake), [hits, failed, outputs].map(numbers));
                }
            }
        }
    }

    #[test]
    fn a_kind_that_has_ended_costs_no_more_pages() {
        let mut fake = Fake::new(0, 1, 100);
        walked(&mut fake);
        assert_eq!(fake.asked, 50, "the first page is asked for once");
    }

    #[test]
    fn long_outputs_are_fetched_and_checked() {
        let mut stream = Fake { long: Some(b"long \xff output".to_vec()), ..Fake::new(0, 0, 1) };
        let mut seen = Vec::new();
        let see = |output: OutputInfo| {
            seen.push(output.stdout);
            Ok(())
        };
        let counted = Pages::new(&mut stream, Wanted::default()).unwrap().outputs(see).unwrap();
        assert_eq!(counted, Seen { cut: 1, ..Seen::default() });
        let stdout = seen.remove(0);
        assert_eq!(stdout.text, "long \u{fffd} output");
        assert_eq!(stdout.hex, Some(to_hex(b"long \xff output")));

        let content = b"long".to_vec();
        let mut info = StreamInfo { kept: 4, hash: Some(ContentHash::of(&content)), ..stdout.clone() };
        let mut gone = Fake::new(0, 0, 0);
        fill(&mut gone, &mut info).unwrap();
        assert_eq!(info.lost, Some(OutputLoss::Missing));
        assert_eq!(info.text, stdout.text, "what is gone is left out");
        info.kept = 3;
        fill(&mut Fake { long: Some(content), ..gone }, &mut info).unwrap();
        assert_eq!(info.lost, Some(OutputLoss::Damaged));
    }

    #[test]
    fn outputs_come_by_unit_one_each_and_as_they_came_in_where_that_is_wanted() {
        let order = |wanted: Wanted| {
            let mut fake = Fake { backwards: true, superseded: vec![1, 3], ..Fake::new(0, 0, 5) };
            let mut units = Vec::new();
            let see = |output: OutputInfo| {
                units.push(output.unit.to_string());
                Ok(())
            };
            assert_eq!(Pages::new(&mut fake, wanted).unwrap().outputs(see).unwrap(), Seen::default());
            units.join(" ")
        };
        assert_eq!(order(Wanted::default()), "0 2 4");
        assert_eq!(order(Wanted { all: true, arrival: false }), "0 1 2 3 4");
        assert_eq!(order(Wanted { all: false, arrival: true }), "4 2 0");
        assert_eq!(order(Wanted { all: true, arrival: true }), "4 3 2 1 0");
    }

    #[test]
    fn outputs_that_should_be_there_are_missed_unit_by_unit() {
        let of = |lo, hi, what| LostOutputs { lo: Units(lo), hi: Units(hi), what, superseded: false };
        let told = vec![
            of(1, 2, OutputLoss::Damaged),
            of(3, 4, OutputLoss::Missing),
            of(9, 12, OutputLoss::Missing),
        ];
        let lost =
            |fake: &mut Fake| Pages::new(fake, Wanted::default()).unwrap().outputs(|_| Ok(())).unwrap().lost;
        assert_eq!(lost(&mut Fake { lost: told.clone(), ..Fake::new(0, 0, 5) }), told);
        assert_eq!(lost(&mut Fake { lost: told.clone(), ..Fake::new(0, 2, 0) }), told, "all of them");
        // What is gone when it is fetched is told once.
        let mut gone = Fake { long: Some(b"x".to_vec()), gone: true, lost: told, ..Fake::new(0, 0, 4) };
        let what = OutputLoss::Missing;
        let units = [of(0, 1, what), of(1, 2, OutputLoss::Damaged), of(2, 3, what), of(3, 4, what)];
        assert_eq!(lost(&mut gone)[..4], units);
    }

    /// They were printed as if they had been empty, and nothing said that they are lost.
    #[test]
    fn outputs_of_runs_that_do_not_count_are_missed_where_all_are_wanted() {
        let of = |lo, what, superseded| LostOutputs { lo: Units(lo), hi: Units(lo + 1), what, superseded };
        let told = vec![of(1, OutputLoss::Damaged, false), of(1, OutputLoss::Damaged, true)];
        let lost = |all: bool| {
            let (long, lost) = (Some(b"x".to_vec()), told.clone());
            let mut fake = Fake { long, gone: true, lost, superseded: vec![1, 2], ..Fake::new(0, 0, 3) };
            let (mut seen, wanted) = (Vec::new(), Wanted { all, arrival: false });
            let see = |output: OutputInfo| {
                seen.push((output.unit.0, output.stdout.lost));
                Ok(())
            };
            (Pages::new(&mut fake, wanted).unwrap().outputs(see).unwrap().lost, seen)
        };
        let (missing, first) = (Some(OutputLoss::Missing), of(0, OutputLoss::Missing, false));
        assert_eq!(lost(false), (vec![first, told[0]], vec![(0, missing)]));
        let all = vec![first, told[0], told[1], of(2, OutputLoss::Missing, true)];
        assert_eq!(lost(true), (all, vec![(0, missing), (1, missing), (2, missing)]));
    }
}

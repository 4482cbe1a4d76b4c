//! Alarms as a post has them: its own, and those that posts below have told. Each is said to whoever should know it until that
//! one says that it does, and again where somebody else should know it. So an alarm is lost with no link and with no post but
//! its own.

use std::collections::BTreeMap;

use starfarm_protocol::link::{ALARMS_A_MESSAGE, Alarm, AlarmAck, AlarmKey, AlarmLevel};
use starfarm_protocol::orders::PostId;

/// Alarms of a post, at most: others are refused, and said again by who raised them.
const ALARMS_MAX: usize = 10_000;
/// And of these raised by one post, beside those of this one.
const OF_A_POST_MAX: usize = 256;
/// Clocks of posts differ by no more than this, in microseconds: what is said to have been raised later has not been.
const AHEAD_US: u64 = 5_000_000;
/// What was not acknowledged is said again after so long, in microseconds.
const AGAIN_US: u64 = 1_000_000;
/// One that stands is said again so often, so that others see that it still does.
const FRESH_US: u64 = 20_000_000;
/// Somebody else's that was not said again for so long is forgotten.
const STALE_US: u64 = 65_000_000;
/// One that is over is remembered for so long.
const OVER_US: u64 = 60_000_000;
/// Those from whom one came, as far as they are remembered.
const FROM_MAX: usize = 8;
/// One that is raised anew so soon after its post's process ended, without having been over, is the one before.
const SAME_US: u64 = STALE_US;

/// Whom alarms are said to: each knows what it knows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Hearer {
    /// The parent of this post.
    Parent,
    /// The second root.
    Second,
    /// The post that runs a program.
    Reactor,
}

const HEARERS: usize = 3;

struct Entry {
    alarm: Alarm,
    /// When it was first raised, and when it changed last or was said again.
    since_us: u64,
    heard_us: u64,
    /// From whom: the children, or this post itself.
    from: Vec<PostId>,
    /// By hearer: the version that it knows, and when one was said to it last.
    known: [Option<u32>; HEARERS],
    said_us: [Option<u64>; HEARERS],
}

/// What a sensor sees.
#[derive(Clone, PartialEq, Debug)]
pub struct Seen {
    /// Which sensor.
    pub sensor: String,
    /// How bad it is; none: all is well.
    pub level: Option<AlarmLevel>,
    /// The figure, if it is one.
    pub value: Option<f64>,
    /// What is wrong, for a person.
    pub text: String,
    /// Whether the node is to get no more tasks.
    pub drains: bool,
}

/// An alarm, and how it is known.
#[derive(Clone, PartialEq, Debug)]
pub struct Standing<'a> {
    /// The alarm.
    pub alarm: &'a Alarm,
    /// When it was first raised, by the farm's clock, in microseconds.
    pub since_us: u64,
    /// From which children it came.
    pub from: &'a [PostId],
}

/// All alarms of a post.
#[derive(Default)]
pub struct Alarms {
    entries: BTreeMap<AlarmKey, Entry>,
    refused: u64,
}

impl Alarms {
    /// A sensor of this post, which is on that node, sees something. What it has told before is not told again.
    pub fn see(&mut self, (post, node): (PostId, &str), seen: Seen, now_us: u64) {
        let key = AlarmKey { origin: post, sensor: seen.sensor };
        let known = self.entries.get_mut(&key);
        if let Some(entry) = known
            && (entry.alarm.level.is_some() || seen.level.is_none())
        {
            // The figure moves all the time: it goes along with what is said anyway.
            let alarm = &mut entry.alarm;
            alarm.value = seen.value.or(alarm.value);
            if alarm.level == seen.level {
                return;
            }
            (alarm.level, alarm.version, entry.heard_us) = (seen.level, alarm.version + 1, now_us);
            if seen.level.is_some() {
                (alarm.text, alarm.drains) = (seen.text, alarm.drains || seen.drains);
            }
            return;
        }
        if seen.level.is_none() {
            return;
        }
        let over = self.entries.get(&key);
        let (version, is_first) = (over.map_or(1, |over| over.alarm.version + 1), over.is_none());
        let alarm = Alarm {
            key,
            episode: now_us,
            version,
            level: seen.level,
            drains: seen.drains,
            reacted: false,
            drained: false,
            is_first,
            value: seen.value,
            node: node.to_owned(),
            text: seen.text,
        };
        self.insert(alarm, post, now_us);
    }

    fn insert(&mut self, alarm: Alarm, from: PostId, now_us: u64) -> bool {
        if self.entries.len() >= ALARMS_MAX && !self.entries.contains_key(&alarm.key) {
            self.refused += 1;
            return false;
        }
        let (key, since_us) = (alarm.key.clone(), alarm.episode.min(now_us));
        let from = vec![from];
        let entry = Entry {
            alarm,
            since_us,
            heard_us: now_us,
            from,
            known: [None; HEARERS],
            said_us: [None; HEARERS],
        };
        self.entries.insert(key, entry);
        true
    }

    /// Alarms that this post told of have been raised by a clock that went back: to whoever knows of them they are the same.
    pub fn begin_anew(&mut self, post: PostId, now_us: u64) {
        let latest_us = now_us.saturating_add(AHEAD_US);
        let of_later = |of: &&mut Entry| of.alarm.key.origin == post && of.alarm.episode > latest_us;
        for Entry { alarm, heard_us, known, .. } in self.entries.values_mut().filter(of_later) {
            (alarm.episode, alarm.version, alarm.is_first) = (now_us, alarm.version + 1, true);
            (*heard_us, *known) = (now_us, [None; HEARERS]);
        }
    }

    /// A child tells of alarms: what it is to hear. What there was no room for, or has yet to come, is not acknowledged, so it
    /// comes again.
    pub fn take(&mut self, child: PostId, alarms: Vec<Alarm>, now_us: u64) -> Vec<AlarmAck> {
        let told = alarms.into_iter().take(ALARMS_A_MESSAGE);
        told.filter_map(|alarm| self.take_one(child, alarm, now_us)).collect()
    }

    fn take_one(&mut self, child: PostId, alarm: Alarm, now_us: u64) -> Option<AlarmAck> {
        let AlarmKey { origin, sensor } = &alarm.key;
        let key = AlarmKey { origin: *origin, sensor: sensor.clone() };
        let (episode, version) = (alarm.episode, alarm.version);
        if episode > now_us.saturating_add(AHEAD_US) {
            return None;
        }
        let (reacted, drained) = match self.entries.get_mut(&key) {
            Some(entry) => {
                entry.take(child, alarm, now_us);
                (entry.alarm.reacted, entry.alarm.drained)
            }
            None => {
                let done = (alarm.reacted, alarm.drained);
                if self.of_post(key.origin) >= OF_A_POST_MAX {
                    self.refused += 1;
                    return None;
                }
                if !self.insert(alarm, child, now_us) {
                    return None;
                }
                done
            }
        };
        Some(AlarmAck { key, episode, version, reacted, drained })
    }

    /// How many there are that this post has raised.
    fn of_post(&self, post: PostId) -> usize {
        let first = AlarmKey { origin: post, sensor: String::new() };
        self.entries.range(first..).take_while(|(key, _)| key.origin == post).count()
    }

    /// Somebody says what it knows.
    pub fn on_acks(&mut self, hearer: Hearer, acks: Vec<AlarmAck>) {
        for ack in acks {
            let Some(entry) = self.entries.get_mut(&ack.key) else { continue };
            if entry.alarm.episode == ack.episode {
                let known = &mut entry.known[hearer as usize];
                *known = (*known).max(Some(ack.version.min(entry.alarm.version)));
                entry.alarm.reacted |= ack.reacted;
                entry.alarm.drained |= ack.drained;
            }
        }
    }

    /// This hearer is another from now on, or it forgot all: it is told everything.
    pub fn anew(&mut self, hearer: Hearer) {
        for entry in self.entries.values_mut() {
            (entry.known[hearer as usize], entry.said_us[hearer as usize]) = (None, None);
        }
    }

    /// What is to be said to a hearer now, in messages of at most [`ALARMS_A_MESSAGE`]; nothing where it knows all. What it has
    /// not acknowledged is due again a second later.
    pub fn due(&mut self, hearer: Hearer, now_us: u64) -> Vec<Vec<Alarm>> {
        let at = hearer as usize;
        let mut due = Vec::new();
        for entry in self.entries.values_mut().filter(|entry| entry.is_news_for(at)) {
            if entry.said_us[at].is_none_or(|said_us| said_us + AGAIN_US <= now_us || said_us > now_us) {
                entry.said_us[at] = Some(now_us);
                due.push(entry.alarm.clone());
            }
        }
        due.chunks(ALARMS_A_MESSAGE).map(<[Alarm]>::to_vec).collect()
    }

    /// When something is to be said to one of these hearers.
    pub fn due_us(&self, hearers: &[Hearer]) -> Option<u64> {
        let of = |entry: &Entry| {
            let news = hearers.iter().filter(|hearer| entry.is_news_for(**hearer as usize));
            news.map(|hearer| entry.said_us[*hearer as usize].map_or(0, |said_us| said_us + AGAIN_US)).min()
        };
        self.entries.values().filter_map(of).min()
    }

    /// A hearer has not heard something yet that stands.
    pub fn has_news(&self, hearer: Hearer) -> bool {
        self.entries.values().any(|entry| entry.is_news_for(hearer as usize))
    }

    /// Says its own again that stand for long, and forgets what is over or of nobody.
    pub fn tidy(&mut self, post: PostId, now_us: u64) {
        for entry in self.entries.values_mut() {
            let is_own = entry.alarm.key.origin == post;
            if is_own && entry.alarm.level.is_some() && entry.heard_us + FRESH_US <= now_us {
                (entry.alarm.version, entry.heard_us) = (entry.alarm.version + 1, now_us);
            }
        }
        self.entries.retain(|key, entry| {
            let stands = entry.alarm.level.is_some();
            let keep_us = if stands { STALE_US } else { OVER_US };
            stands && key.origin == post || entry.heard_us + keep_us > now_us
        });
    }

    /// A post is not there any more, and neither is what it was alarmed about.
    pub fn forget(&mut self, post: PostId) {
        self.entries.retain(|key, _| key.origin != post);
    }

    /// Those for which a program is to be run, which are then as good as done: each once.
    pub fn take_for_reaction(&mut self) -> Vec<Alarm> {
        let waiting = |entry: &&mut Entry| entry.alarm.level.is_some() && !entry.alarm.reacted;
        let react = |entry: &mut Entry| {
            entry.alarm.reacted = true;
            entry.alarm.clone()
        };
        self.entries.values_mut().filter(waiting).map(react).collect()
    }

    /// Those whose nodes are to get no more tasks, which is then as good as done: each once, whoever has the node get tasks again.
    pub fn take_for_draining(&mut self) -> Vec<PostId> {
        let waits = |alarm: &&mut Alarm| alarm.level.is_some() && alarm.drains && !alarm.drained;
        let drain = |alarm: &mut Alarm| {
            alarm.drained = true;
            alarm.key.origin
        };
        self.entries.values_mut().map(|entry| &mut entry.alarm).filter(waits).map(drain).collect()
    }

    /// Those that stand.
    pub fn standing(&self) -> impl Iterator<Item = Standing<'_>> {
        let standing = self.entries.values().filter(|entry| entry.alarm.level.is_some());
        standing.map(|entry| Standing { alarm: &entry.alarm, since_us: entry.since_us, from: &entry.from })
    }

    /// Alarms that there was no room for, each time that they were told.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

impl Entry {
    /// It is known that this hearer does not know it as it is.
    fn is_news_for(&self, hearer: usize) -> bool {
        self.known[hearer] != Some(self.alarm.version)
    }

    /// It is told of again: what is newer counts, and whether a program was run once somebody knows.
    fn take(&mut self, child: PostId, alarm: Alarm, now_us: u64) {
        let known = (self.alarm.episode, self.alarm.version);
        let is_same = alarm.episode == self.alarm.episode;
        // What is known to have yet to come is of a clock that went back.
        let is_newer = (alarm.episode, alarm.version) > known || known.0 > now_us.saturating_add(AHEAD_US);
        if is_newer {
            let was_up = self.alarm.level.is_some() && self.heard_us + SAME_US > now_us;
            // Its post's process has ended in between, and the next one sees what the one before did.
            let goes_on = is_same || was_up && alarm.is_first;
            let reacted = alarm.reacted || goes_on && self.alarm.reacted;
            let drained = alarm.drained || goes_on && self.alarm.drained;
            // Some are told by one who may not say so.
            let drains = alarm.drains || is_same && self.alarm.drains;
            if !goes_on {
                self.since_us = alarm.episode.min(now_us);
            }
            if !is_same {
                (self.known, self.from) = ([None; HEARERS], Vec::new());
            }
            (self.alarm, self.heard_us) = (Alarm { reacted, drained, drains, ..alarm }, now_us);
        } else if is_same {
            self.alarm.reacted |= alarm.reacted;
            self.alarm.drained |= alarm.drained;
            self.alarm.drains |= alarm.drains;
        } else {
            return;
        }
        if !self.from.contains(&child) && self.from.len() < FROM_MAX {
            self.from.push(child);
        }
    }
}

#[cfg(test)]
mod tests;

//! How the bulk channel does: whether TCP reaches the scheduler that UDP reaches. A firewall that opens 7117/udp alone
//! lets tasks in and no specification. Times are arguments; sockets are in `bulk`.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A channel that has failed for this long is given up for now: who waits for a specification hears why.
const HOPELESS: Duration = Duration::from_secs(60);
/// A scheduler that was not heard for this long is away, and no fault of TCP.
const AWAY: Duration = Duration::from_secs(5);

/// What is known of the channel.
#[derive(Default)]
pub(crate) struct Health {
    scheduler: Option<SocketAddr>,
    heard: Option<Instant>,
    /// Since when every attempt failed while the scheduler was heard, and why the last one did.
    failing: Option<(Instant, String)>,
    /// The person was told that it fails.
    told: bool,
    /// How often it worked again after it was given up.
    recoveries: u32,
    news: Option<String>,
}

impl Health {
    /// Where the scheduler was heard last.
    pub(crate) fn set_scheduler(&mut self, address: SocketAddr, now: Instant) {
        self.scheduler = Some(address);
        self.heard = Some(now);
    }

    pub(crate) fn scheduler(&self) -> Option<SocketAddr> {
        self.scheduler
    }

    /// The scheduler was heard over UDP.
    pub(crate) fn heard(&mut self, now: Instant) {
        self.heard = Some(now);
    }

    /// The channel was tried from `begun` on; why it failed, if it did.
    pub(crate) fn tried(&mut self, failed: Option<&str>, begun: Instant, now: Instant) {
        let there = self.heard.is_some_and(|heard| now.saturating_duration_since(heard) < AWAY);
        let Some(address) = self.scheduler else { return };
        match failed {
            Some(why) if there => {
                let since = self.failing.take().map_or(begun, |(since, _)| since);
                self.failing = Some((since, format!("no TCP connection to {address}: {why}")));
                // One that is just going down refuses connections, and was heard a moment ago.
                let lasts = now.saturating_duration_since(since) >= AWAY;
                if lasts && !std::mem::replace(&mut self.told, true) {
                    self.news = Some(format!(
                        "no TCP connection to {address} ({why}), though UDP gets through: does a firewall block port \
                         {}/tcp? No task can run here without it; still trying",
                        address.port()
                    ));
                }
            }
            Some(_) => self.failing = None,
            None => {
                self.recoveries += u32::from(self.hopeless(now).is_some());
                self.failing = None;
                if std::mem::take(&mut self.told) {
                    self.news = Some(format!("the TCP connection to {address} works now"));
                }
            }
        }
    }

    /// How often it worked again after it was given up.
    pub(crate) fn recoveries(&self) -> u32 {
        self.recoveries
    }

    /// Since when and why it fails.
    fn trouble(&self, now: Instant) -> Option<(Duration, String)> {
        let (since, why) = self.failing.as_ref()?;
        Some((now.saturating_duration_since(*since), why.clone()))
    }

    /// Why there is no use in waiting for it.
    pub(crate) fn hopeless(&self, now: Instant) -> Option<String> {
        let (failing, why) = self.trouble(now).filter(|(failing, _)| *failing >= HOPELESS)?;
        let port = self.scheduler.map_or(0, |address| address.port());
        Some(format!(
            "{why}, for {} s, so neither specifications nor outputs get through: open port {port}/tcp for this machine",
            failing.as_secs()
        ))
    }

    /// What a person should read now.
    pub(crate) fn take_news(&mut self) -> Option<String> {
        self.news.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(u64) -> Duration = Duration::from_secs;

    fn health() -> (Health, Instant) {
        let mut health = Health::default();
        let now = Instant::now();
        health.set_scheduler("10.0.0.1:7117".parse().unwrap(), now);
        (health, now)
    }

    #[test]
    fn blocked_tcp_is_told_once_given_up_after_a_minute_and_told_again_when_it_works() {
        let (mut health, start) = health();
        for second in (0..70).step_by(10) {
            health.heard(start + AT(second + 10));
            health.tried(Some("timed out"), start + AT(second), start + AT(second + 10));
            let news = health.take_news();
            assert_eq!(news.is_some_and(|news| news.contains("7117/tcp")), second == 0);
            assert_eq!(health.hopeless(start + AT(second + 10)).is_some(), second >= 50);
        }
        let why = health.hopeless(start + AT(80)).unwrap();
        assert!(why.contains("no TCP connection to 10.0.0.1:7117: timed out, for 80 s"), "{why}");
        health.tried(None, start + AT(80), start + AT(80));
        assert!(health.take_news().unwrap().contains("works now"));
        assert_eq!(health.recoveries(), 1);
        assert!(health.trouble(start + AT(80)).is_none() && health.take_news().is_none());
    }

    #[test]
    fn a_scheduler_that_is_away_is_no_fault_of_tcp() {
        let (mut health, start) = health();
        // It goes down: what it said last was heard a moment ago.
        for second in 0..5 {
            health.tried(Some("refused"), start + AT(second), start + AT(second));
        }
        for second in (5..200).step_by(5) {
            health.tried(Some("refused"), start + AT(second), start + AT(second));
            assert!(health.trouble(start + AT(second)).is_none());
        }
        assert!(health.take_news().is_none());
    }
}

//! How the bulk channel does: whether TCP reaches the scheduler that UDP reaches. A firewall that opens 7117/udp alone
//! lets tasks in and no specification.

use core::net::SocketAddr;

/// A channel that has failed for this long is given up for now: who waits for a specification hears why.
const HOPELESS_US: u64 = 60_000_000;
/// A scheduler that was not heard for this long is away, and no fault of TCP.
const AWAY_US: u64 = 5_000_000;

/// What is known of the channel.
#[derive(Default, Debug)]
pub struct Health {
    scheduler: Option<SocketAddr>,
    heard_us: Option<u64>,
    /// Since when every attempt failed while the scheduler was heard, and why the last one did.
    failing: Option<(u64, String)>,
    /// The person was told that it fails.
    told: bool,
    /// How often it worked again after it was given up.
    recoveries: u32,
    /// Until then outputs are on their way.
    moves_us: u64,
    news: Option<String>,
}

impl Health {
    /// Where the scheduler was heard last.
    pub fn set_scheduler(&mut self, address: SocketAddr, now_us: u64) {
        self.scheduler = Some(address);
        self.heard_us = Some(now_us);
    }

    /// The same, if it was heard.
    pub fn scheduler(&self) -> Option<SocketAddr> {
        self.scheduler
    }

    /// The scheduler was heard over UDP.
    pub fn heard(&mut self, now_us: u64) {
        self.heard_us = Some(now_us);
    }

    /// The channel was tried from `begun_us` on; why it failed, if it did.
    pub fn tried(&mut self, failed: Option<&str>, begun_us: u64, now_us: u64) {
        let there = self.heard_us.is_some_and(|heard_us| now_us.saturating_sub(heard_us) < AWAY_US);
        let Some(address) = self.scheduler else { return };
        match failed {
            Some(why) if there => {
                let since_us = self.failing.take().map_or(begun_us, |(since_us, _)| since_us);
                self.failing = Some((since_us, format!("no TCP connection to {address}: {why}")));
                // One that is just going down refuses connections, and was heard a moment ago.
                let lasts = now_us.saturating_sub(since_us) >= AWAY_US;
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
                self.recoveries += u32::from(self.hopeless(now_us).is_some());
                self.failing = None;
                if std::mem::take(&mut self.told) {
                    self.news = Some(format!("the TCP connection to {address} works now"));
                }
            }
        }
    }

    /// Outputs are on their way until then, see [`Client::moves_until_us`](super::Client::moves_until_us).
    pub fn moves(&mut self, until_us: u64) {
        self.moves_us = until_us;
    }

    /// Who waits for an output since it was told to stop at `trimmed_us` waits on: outputs get through, or `patience_us` is
    /// not over.
    pub fn is_worth_waiting(&self, trimmed_us: u64, patience_us: u64, now_us: u64) -> bool {
        now_us < (trimmed_us + patience_us).max(self.moves_us)
    }

    /// How often it worked again after it was given up.
    pub fn recoveries(&self) -> u32 {
        self.recoveries
    }

    /// Why there is no use in waiting for it.
    pub fn hopeless(&self, now_us: u64) -> Option<String> {
        let (since_us, why) = self.failing.as_ref()?;
        let failing_us = now_us.saturating_sub(*since_us);
        let port = self.scheduler.map_or(0, |address| address.port());
        (failing_us >= HOPELESS_US).then(|| {
            format!(
                "{why}, for {} s, so neither specifications nor outputs get through: open port {port}/tcp for this machine",
                failing_us / 1_000_000
            )
        })
    }

    /// What a person should read now.
    pub fn take_news(&mut self) -> Option<String> {
        self.news.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 77;
    const AT: fn(u64) -> u64 = |second| START + second * 1_000_000;

    fn health() -> Health {
        let mut health = Health::default();
        health.set_scheduler("10.0.0.1:7117".parse().unwrap(), START);
        health
    }

    #[test]
    fn blocked_tcp_is_told_once_given_up_after_a_minute_and_told_again_when_it_works() {
        let mut health = health();
        for second in (0..70).step_by(10) {
            health.heard(AT(second + 10));
            health.tried(Some("timed out"), AT(second), AT(second + 10));
            let news = health.take_news();
            assert_eq!(news.is_some_and(|news| news.contains("7117/tcp")), second == 0);
            assert_eq!(health.hopeless(AT(second + 10)).is_some(), second >= 50);
        }
        let why = health.hopeless(AT(80)).unwrap();
        assert!(why.contains("no TCP connection to 10.0.0.1:7117: timed out, for 80 s"), "{why}");
        health.tried(None, AT(80), AT(80));
        assert!(health.take_news().unwrap().contains("works now"));
        assert_eq!(health.recoveries(), 1);
        assert!(health.failing.is_none() && health.take_news().is_none());
    }

    #[test]
    fn a_scheduler_that_is_away_is_no_fault_of_tcp() {
        let mut health = health();
        // It goes down: what it said last was heard a moment ago.
        for second in 0..5 {
            health.tried(Some("refused"), AT(second), AT(second));
        }
        for second in (5..200).step_by(5) {
            health.tried(Some("refused"), AT(second), AT(second));
            assert!(health.failing.is_none());
        }
        assert!(health.take_news().is_none());
    }
}

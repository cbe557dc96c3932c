//! Watches payments: a card that pays more than a limit within ten minutes is reported.
//!
//! ```sh
//! cargo run -p millpond-example-basics --bin fraud-detection
//! ```
//!
//! A processor keeps the recent payments of each card in a store. Two timers go with it:
//!
//! * by **event time**, every minute: cards that have not paid for ten minutes are forgotten, so that the store holds what is
//!   recent and no more. Event time goes on with payments, so this does the same however fast they are read, and read again.
//! * by the **wall clock**, every second: how many cards are watched is reported, whether payments come or not.

use millpond::prelude::*;
use millpond_example_basics::Stage;

const APPLICATION: &str = "fraud-detection";
/// Cards, and what they pay in cents.
const PAYMENTS: &str = "payments";
/// Cards, and what they paid within ten minutes.
const ALERTS: &str = "alerts";
/// How many cards are watched.
const WATCHED: &str = "watched";

/// Nobody spends more than this, in cents, ...
const LIMIT: i64 = 100_000;
/// ... in so long, in milliseconds.
const WITHIN: i64 = 10 * 60_000;

/// The payments of a card that count, oldest first: when, and how many cents.
type Recent = Vec<(i64, i64)>;

/// Watches the cards of a task.
struct Watch {
    recent: StoreRef<KeyValue<String, Recent>>,
    alerts: Child,
    watched: Child,
}

impl Watch {
    fn new(init: &mut Init<'_, Self>, recent: StoreRef<KeyValue<String, Recent>>) -> Result<Self> {
        init.schedule(Schedule::stream_time_ms(60_000), |watch, cx, now| watch.forget(cx, now))?;
        init.schedule(Schedule::wall_clock_ms(1_000), |watch, cx, now| watch.report(cx, now))?;
        Ok(Self { recent, alerts: init.child(ALERTS)?, watched: init.child(WATCHED)? })
    }

    /// Forgets the cards whose last payment does not count any more.
    fn forget(&mut self, cx: &mut Context<'_, Self>, now: i64) -> Result {
        let mut rows = cx.store(&self.recent)?.all();
        while let Some((card, payments)) = rows.next(cx)? {
            if payments.last().is_none_or(|(at, _)| *at <= now - WITHIN) {
                cx.store(&self.recent)?.delete(&card)?;
            }
        }
        Ok(())
    }

    /// Says how many cards there are.
    fn report(&mut self, cx: &mut Context<'_, Self>, now: i64) -> Result {
        let (mut rows, mut cards) = (cx.store(&self.recent)?.all(), 0);
        while rows.next(cx)?.is_some() {
            cards += 1;
        }
        let report = Record { key: "cards".to_owned(), value: cards, timestamp: now, headers: Headers::new() };
        cx.forward_to(self.watched, report)
    }
}

impl Processor for Watch {
    type In = Record<String, i64>;
    type Out = Record<String, i64>;

    fn process(&mut self, cx: &mut Context<'_, Self>, payment: Self::In) -> Result {
        let mut recent = cx.store(&self.recent)?;
        let mut payments = recent.get(&payment.key)?.unwrap_or_default();
        payments.push((payment.timestamp, payment.value));
        // They need not come in the order of their times.
        payments.sort_unstable();
        let latest = payments.last().map_or(payment.timestamp, |(at, _)| *at);
        payments.retain(|(at, _)| *at > latest - WITHIN);
        recent.put(&payment.key, &payments)?;
        let spent = payments.iter().map(|(_, cents)| cents).sum();
        if spent > LIMIT { cx.forward_to(self.alerts, Record { value: spent, ..payment }) } else { Ok(()) }
    }
}

fn topology() -> Result<Topology> {
    let mut topology = Topology::builder();
    let recent = topology.key_value_store("recent", Utf8, Json::<Recent>::default());
    let found = topology.stream(PAYMENTS, Consumed::with(Utf8, I64)).process(&recent, Watch::new);
    found.clone().to(ALERTS, Produced::with(Utf8, I64).named(ALERTS));
    found.to(WATCHED, Produced::with(Utf8, I64).named(WATCHED));
    Ok(topology.build()?)
}

fn main() -> millpond_example_basics::Result {
    let stage = Stage::with_topics(&[PAYMENTS, ALERTS, WATCHED])?;
    let minute = |minutes: i64| 1_357_034_400_000 + 60_000 * minutes;
    let payments = [
        ("4711", 60_000, minute(0)),
        ("0815", 99_000, minute(1)),
        ("4711", 30_000, minute(4)),
        ("4711", 20_000, minute(9)),
        ("0815", 99_000, minute(11)),
        ("1234", 1_000, minute(25)),
    ];
    stage.write(PAYMENTS, Utf8, I64, payments)?;

    let app = App::builder(APPLICATION)
        .broker(stage.broker())
        .engine(Memory::default())
        .guarantee(Guarantee::ExactlyOnce)
        .start(topology()?)?;
    stage.await_processed(APPLICATION, &[PAYMENTS])?;
    for alert in stage.output(ALERTS, Utf8, I64)?.ready()? {
        println!("card {} spent {} cents within ten minutes", alert.key, alert.value);
    }
    // The next report knows of all payments.
    let mut watched = stage.output(WATCHED, Utf8, I64)?;
    watched.ready()?;
    if let Some(report) = watched.wait()?.last() {
        println!("{} watched: {}", report.key, report.value);
    }
    app.shutdown()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use millpond_testkit::{Driver, InputTopic};

    use super::*;

    const MINUTE: i64 = 60_000;

    fn driver() -> (Driver, InputTopic<String, i64>) {
        let driver = Driver::builder(topology().unwrap()).build().unwrap();
        let payments = driver.input(PAYMENTS, Utf8, I64);
        (driver, payments)
    }

    fn alerts(driver: &Driver) -> Vec<(String, i64)> {
        driver.output(ALERTS, Utf8, I64).read_key_values()
    }

    #[test]
    fn what_is_spent_within_ten_minutes_counts() {
        let (driver, payments) = driver();
        payments.pipe("a", 60_000, 0).unwrap();
        payments.pipe("b", 90_000, MINUTE).unwrap();
        payments.pipe("a", 40_000, 9 * MINUTE).unwrap();
        assert_eq!(alerts(&driver), [], "the limit itself is allowed");
        payments.pipe("a", 1, 10 * MINUTE - 1).unwrap();
        assert_eq!(alerts(&driver), [("a".to_owned(), 100_001)]);
    }

    #[test]
    fn what_is_older_does_not() {
        let (driver, payments) = driver();
        payments.pipe("a", 60_000, 0).unwrap();
        payments.pipe("a", 60_000, 10 * MINUTE).unwrap();
        assert_eq!(alerts(&driver), []);
        payments.pipe("a", 60_000, 5 * MINUTE).unwrap();
        assert_eq!(alerts(&driver), [("a".to_owned(), 120_000)], "one that comes late counts where it belongs");
    }

    #[test]
    fn event_time_forgets_silent_cards_and_the_wall_clock_does_not() {
        let (driver, payments) = driver();
        let cards = || driver.store("recent", Utf8, Json::<Recent>::default()).all().into_iter().map(|(card, _)| card);
        payments.pipe("a", 1, 0).unwrap();
        payments.pipe("b", 1, 5 * MINUTE).unwrap();
        driver.advance(Duration::from_secs(3_600)).unwrap();
        assert!(cards().eq(["a", "b"]));
        payments.pipe("c", 1, 11 * MINUTE).unwrap();
        assert!(cards().eq(["b", "c"]));
    }

    #[test]
    fn the_wall_clock_reports_without_payments() {
        let (driver, payments) = driver();
        let watched = driver.output(WATCHED, Utf8, I64);
        driver.advance(Duration::from_secs(1)).unwrap();
        payments.pipe("a", 1, 0).unwrap();
        payments.pipe("b", 1, 0).unwrap();
        driver.advance(Duration::from_secs(1)).unwrap();
        assert_eq!(watched.read_values(), [0, 2]);
    }
}

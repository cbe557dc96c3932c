//! What flows through the demo: a flight, and what flights add up to.

use serde::{Deserialize, Serialize};

/// The milliseconds of 365 days.
const YEAR_MS: i64 = 365 * 24 * 3_600_000;

/// A flight: a row of the file, and as JSON a record of the topic `flights`. Fields are named as the file's columns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flight {
    /// When it should have left, in milliseconds since 1970 (UTC).
    pub scheduled_ms: i64,
    /// When it left, in milliseconds since 1970 (UTC); `None`: it was cancelled.
    pub departed_ms: Option<i64>,
    /// The two letters of the airline.
    pub carrier: String,
    /// The airline's number for it.
    pub flight: u32,
    /// The plane, where known.
    pub tailnum: Option<String>,
    /// The airport that it left from.
    pub origin: String,
    /// The airport that it was bound for.
    pub dest: String,
    /// How late it left, in minutes; negative if it was early, `None` if it was cancelled.
    pub dep_delay_min: Option<i32>,
    /// The way from `origin` to `dest`, in miles.
    pub distance_mi: u32,
}

impl Flight {
    /// The flight number as it stands on a ticket, such as `UA1545`: the key of the topic `flights`.
    pub fn number(&self) -> String {
        format!("{}{}", self.carrier, self.flight)
    }

    /// When it happened, in milliseconds since 1970 (UTC): the departure, or the schedule if it was cancelled.
    pub fn event_time(&self) -> i64 {
        self.departed_ms.unwrap_or(self.scheduled_ms)
    }

    /// Whether it left, with a plane that is known: others are nobody's departure.
    pub fn has_left(&self) -> bool {
        self.departed_ms.is_some() && self.tailnum.is_some()
    }

    /// The same flight so many years of 365 days later.
    #[must_use]
    pub fn years_later(self, years: u32) -> Self {
        let later = |ms: i64| ms.saturating_add(i64::from(years) * YEAR_MS);
        Self { scheduled_ms: later(self.scheduled_ms), departed_ms: self.departed_ms.map(later), ..self }
    }
}

/// What all flights of a carrier add up to; as JSON a value of the topic `carrier-totals`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// How many flights, cancelled ones too.
    pub flights: u64,
    /// How many of them were cancelled.
    pub cancelled: u64,
    /// The sum of the delays at departure, in minutes; early ones count negative.
    pub dep_delay_min_sum: i64,
    /// The sum of the distances, in miles, cancelled flights too.
    pub distance_mi_sum: u64,
}

impl Totals {
    /// The totals with one more flight.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "a flight is no number, and `+` would not say more")]
    pub fn add(self, flight: &Flight) -> Self {
        Self {
            flights: self.flights + 1,
            cancelled: self.cancelled + u64::from(flight.departed_ms.is_none()),
            dep_delay_min_sum: self.dep_delay_min_sum + i64::from(flight.dep_delay_min.unwrap_or(0)),
            distance_mi_sum: self.distance_mi_sum + u64::from(flight.distance_mi),
        }
    }
}

/// What left an airport in an hour; as JSON a value of the topic `hourly-departures`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departures {
    /// How many flights.
    pub departures: u64,
    /// The sum of their delays, in minutes; early ones count negative.
    pub delay_min_sum: i64,
}

impl Departures {
    /// The same with one more flight.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "a flight is no number, and `+` would not say more")]
    pub fn add(self, flight: &Flight) -> Self {
        Self {
            departures: self.departures + 1,
            delay_min_sum: self.delay_min_sum + i64::from(flight.dep_delay_min.unwrap_or(0)),
        }
    }
}

/// What a plane flew without a long rest; as JSON a value of the topic `plane-legs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Legs {
    /// How many flights.
    pub legs: u64,
    /// How far, in miles.
    pub miles: u64,
}

impl Legs {
    /// The same with one more flight.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "a flight is no number, and `+` would not say more")]
    pub fn add(self, flight: &Flight) -> Self {
        Self { legs: self.legs + 1, miles: self.miles + u64::from(flight.distance_mi) }
    }

    /// Two parts of what turned out to be one.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        Self { legs: self.legs + other.legs, miles: self.miles + other.miles }
    }
}

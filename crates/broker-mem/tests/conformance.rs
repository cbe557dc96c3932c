//! The case list of the log seam, on the embedded broker and a clock that the test moves.

use std::time::Duration;

use millpond_broker_api::conformance::{Ability, Environment};
use millpond_broker_api::{Broker, Clock, Result};
use millpond_broker_mem::{EmbeddedBroker, ManualClock};

struct Embedded {
    broker: EmbeddedBroker,
    clock: ManualClock,
    names: u32,
}

impl Embedded {
    fn new() -> Self {
        let clock = ManualClock::new();
        Self { broker: EmbeddedBroker::with_clock(clock.clone()), clock, names: 0 }
    }
}

impl Environment for Embedded {
    fn broker(&self) -> &dyn Broker {
        &self.broker
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    fn can(&self, _: Ability) -> bool {
        true
    }

    fn unique(&mut self, stem: &str) -> String {
        self.names += 1;
        format!("{stem}-{}", self.names)
    }

    fn pass(&mut self, time: Duration) -> bool {
        self.clock.advance(time);
        true
    }

    fn until(&mut self, limit: Duration, done: &mut dyn FnMut(&dyn Broker) -> Result<bool>) -> Result<bool> {
        let end = self.clock.now() + limit;
        while !done(&self.broker)? {
            if self.clock.now() >= end {
                return Ok(false);
            }
            self.clock.advance(Duration::from_millis(50));
        }
        Ok(true)
    }

    fn compact(&mut self, topic: &str) -> Result<()> {
        self.broker.compact(topic)
    }

    fn expire(&mut self, topic: &str) -> Result<()> {
        self.broker.expire(topic)
    }
}

millpond_broker_api::broker_conformance!(Embedded::new());

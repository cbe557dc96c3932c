//! What a case asks of the world around the broker: time that passes, and maintenance that happens now.

use std::time::Duration;

use crate::{Broker, Clock, Result};

/// Something that not every environment can do in a test's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// [`Environment::pass`].
    Pass,
    /// [`Environment::compact`].
    Compact,
    /// [`Environment::expire`].
    Expire,
}

/// A broker and the world around it, as the cases need it.
///
/// Over `millpond-broker-mem` a clock is moved; over a real cluster everything is waited for. A broker that is shared by
/// several environments is fine.
pub trait Environment {
    /// The broker under test.
    fn broker(&self) -> &dyn Broker;

    /// The broker's time. Cases take record timestamps from it.
    fn clock(&self) -> &dyn Clock;

    /// Whether it can do this. What it cannot, it refuses.
    fn can(&self, what: Ability) -> bool;

    /// A name that nobody else has used on this broker, for a topic, group or transactional id. It begins with `stem`.
    fn unique(&mut self, stem: &str) -> String;

    /// Lets time pass for the broker and its clients, at least as much as given. `false`: it cannot.
    fn pass(&mut self, time: Duration) -> bool;

    /// Calls `done` again and again, with a little time (at most 100 ms) passing in between, until it says `true` or
    /// `limit` has passed; answers with what it said last. Calls it at least once.
    fn until(&mut self, limit: Duration, done: &mut dyn FnMut(&dyn Broker) -> Result<bool>) -> Result<bool>;

    /// Compacts all partitions of the topic now, if `cleanup.policy` has `compact`: of the records that were there when it
    /// was called, below the last stable offset, only the last of each key is left. A tombstone that is the last of its key goes by a later call, at
    /// least `delete.retention.ms` after this one.
    ///
    /// It may append records whose key begins with `tick`, where only an append makes older records compactable.
    fn compact(&mut self, topic: &str) -> Result<()>;

    /// Applies `retention.ms` to all partitions of the topic now, if `cleanup.policy` has `delete`: records at the start
    /// of the log that are all older than that, by their timestamps, are gone.
    fn expire(&mut self, topic: &str) -> Result<()>;
}

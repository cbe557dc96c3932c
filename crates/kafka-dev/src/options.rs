//! How a broker is to be.

use std::path::PathBuf;

/// How a broker is to be. The defaults suit a test.
#[derive(Clone, Debug)]
pub struct KafkaOptions {
    /// The port of the plaintext listener; the secure one and the controller take the next two. `None`: three free
    /// ports, chosen by us.
    pub port: Option<u16>,
    /// Where the broker keeps its data, its configuration and its log. A directory that holds a broker's data already
    /// is gone on with, and nothing is removed. `None`: a new directory, removed when the broker is dropped.
    pub data: Option<PathBuf>,
    /// The largest heap of the JVM, in MiB.
    pub heap_mib: u32,
    /// Settings of the broker that are added to ours, or replace them.
    pub properties: Vec<(String, String)>,
}

impl KafkaOptions {
    /// The default heap: a broker under tests takes some 330 MiB in all.
    pub const HEAP_MIB: u32 = 512;

    /// Adds a setting of the broker, or replaces one of ours.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.properties.push((name.to_owned(), value.to_string()));
        self
    }
}

impl Default for KafkaOptions {
    fn default() -> Self {
        Self { port: None, data: None, heap_mib: Self::HEAP_MIB, properties: Vec::new() }
    }
}

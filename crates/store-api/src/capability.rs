//! What an engine declares about itself.

/// Abilities of a shard as it stands, wrappers included.
///
/// A declared ability MUST work; an undeclared one MUST answer [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported)
/// where there is a call for it. Both are tested by the conformance suite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// What is durable survives the end of the process; the shard needs a directory.
    pub persistent: bool,
    /// [`Read::multi_get`](crate::Read::multi_get) overlaps its reads, so that looking a batch's keys up ahead pays.
    pub overlapped_reads: bool,
    /// [`Shard::checkpoint`](crate::Shard::checkpoint) works and costs about as much as a few links in the file system.
    pub cheap_checkpoint: bool,
    /// Several processes may have the shard open for reading.
    pub shared_open: bool,
    /// What a reader's scan sees of batches that are applied meanwhile.
    pub isolation: Isolation,
}

/// What a scan of a [`ShardReader`](crate::ShardReader) sees of batches that are applied meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Each `get` and each chunk of a scan is of one moment; a batch may become visible between two chunks.
    #[default]
    Chunk,
    /// A scan is of the moment it began.
    Scan,
}

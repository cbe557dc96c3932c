//! Hashes, partitions, and what is kept of offsets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use millpond_changelog::{CommitMetadata, ErrorKind, Position, murmur2, partition_for_key};
use millpond_topology::murmur3_128;

use crate::case::{Case, Outcome, ensure, said, same};
use crate::damage;

pub(crate) fn murmur3(case: &Case<'_>) -> Outcome {
    same("hash", murmur3_128(&case.bytes("value_hex")?), [case.int("h0")?, case.int("h1")?])
}

pub(crate) fn partition(case: &Case<'_>) -> Outcome {
    let key = case.bytes("key_hex")?;
    same("hash", murmur2(&key), case.int("murmur2")?)?;
    same("positive hash", murmur2(&key) & i32::MAX, case.int("positive")?)?;
    for (partitions, expected) in case.map("partition_of")? {
        let partition = partition_for_key(&key, partitions.parse().map_err(said)?);
        same("partition", Some(i64::from(partition)), expected.as_i64())?;
    }
    Ok(())
}

/// What a case says, in the order of names, since that of the text is a hash map's.
fn metadata(case: &Case<'_>) -> Outcome<CommitMetadata> {
    let entry = |(name, value): (&String, &serde_json::Value)| Some((name.clone(), value.as_i64()?));
    let entries: Option<Vec<_>> = case.map("processor_metadata")?.iter().map(entry).collect();
    Ok(sorted(CommitMetadata { partition_time: case.int("partition_time")?, processor: entries.ok_or("no numbers")? }))
}

fn sorted(mut metadata: CommitMetadata) -> CommitMetadata {
    metadata.processor.sort();
    metadata
}

pub(crate) fn commit_metadata(case: &Case<'_>) -> Outcome {
    let (metadata, text, hex) = (metadata(case)?, case.text("metadata")?, case.bytes("hex")?);
    same("bytes of the text", STANDARD.decode(text).map_err(said)?, hex.clone())?;
    same("metadata", sorted(CommitMetadata::decode(text)), metadata.clone())?;
    let mut out = String::new();
    metadata.encode(&mut out);
    if metadata.processor.len() < 2 {
        same("text", out.as_str(), text)?;
    }
    same("length of the text", out.len(), text.len())?;
    same("metadata again", CommitMetadata::decode(&out), metadata)?;
    // Reading never fails, but may find out less.
    damage::readable(&hex, &|bytes| {
        let mut out = String::new();
        CommitMetadata::decode(&STANDARD.encode(bytes)).encode(&mut out);
        STANDARD.decode(&out).ok()
    })
}

pub(crate) fn commit_metadata_read(case: &Case<'_>) -> Outcome {
    same("metadata", sorted(CommitMetadata::decode(case.text("metadata")?)), metadata(case)?)
}

pub(crate) fn position(case: &Case<'_>) -> Outcome {
    let mut position = Position::default();
    for (topic, partitions) in case.map("position")? {
        for (partition, offset) in partitions.as_object().ok_or("no partitions")? {
            let offset = offset.as_i64().ok_or("no offset")?;
            position.advance(topic, partition.parse().map_err(said)?, offset);
        }
    }
    let hex = case.bytes("hex")?;
    same("length", hex.len(), case.int("backing_array_length")?)?;
    let meaningful = case.int::<u32>("meaningful_bytes")? as usize;
    let meaningful = hex.get(..meaningful).ok_or("fewer bytes than meaningful ones")?;
    let again = |bytes: &[u8]| {
        let right = |e: &millpond_changelog::Error| matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::Future);
        let position = Position::decode(bytes).inspect_err(|e| assert!(right(e), "{e}")).ok()?;
        let mut out = Vec::new();
        position.encode(&mut out);
        Some(out)
    };
    same("position", &Position::decode(&hex).map_err(said)?, &position)?;
    same("position without room behind it", &Position::decode(meaningful).map_err(said)?, &position)?;
    let written = again(&hex).ok_or("it is not read")?;
    if position.iter().count() < 2 {
        same("bytes", written.as_slice(), meaningful)?;
    }
    same("length of the bytes", written.len(), meaningful.len())?;
    same("position again", Position::decode(&written).map_err(said)?, position)?;
    let cut = (0..meaningful.len()).all(|n| Position::decode(&meaningful[..n]).is_err());
    ensure(cut, "no truncation is read")?;
    damage::readable(meaningful, &again)
}

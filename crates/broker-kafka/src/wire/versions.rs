//! Which version of each request is spoken: the highest that both sides know.

use std::collections::BTreeMap;

use kafka_protocol::messages::{self, ApiKey};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion};
use millpond_broker_api::membership::code;
use millpond_broker_api::{Error, Result};

use crate::error;

/// A request that we send, and the versions of it that we have tried: all brokers since Kafka 2.5 know the lowest.
pub(crate) trait Api: Encodable + HeaderVersion {
    type Response: Decodable + HeaderVersion;
    const NAME: &'static str;
    const KEY: i16;
    const SPOKEN: (i16, i16);
}

macro_rules! api {
    ($request:ident $response:ident $name:ident $lowest:literal $highest:literal) => {
        impl Api for messages::$request {
            type Response = messages::$response;
            const NAME: &'static str = stringify!($name);
            const KEY: i16 = ApiKey::$name as i16;
            const SPOKEN: (i16, i16) = ($lowest, $highest);
        }
    };
}

macro_rules! apis {
    ($($request:ident $response:ident $name:ident $lowest:literal $highest:literal,)*) => {
        $(api! { $request $response $name $lowest $highest })*

        impl Versions {
            /// Whether the broker can do all that this crate may ask of it.
            pub(crate) fn suffice(&self) -> Result<()> {
                $(self.of::<messages::$request>()?;)*
                Ok(())
            }
        }
    };
}

// The lowest versions bring: JoinGroup 5 the static id, OffsetFetch 7 `require_stable` (KIP-447), CreateTopics 4 the
// broker's default for the replication factor, DescribeConfigs 1 where a value comes from.
apis! {
    CreateTopicsRequest CreateTopicsResponse CreateTopics 4 7,
    DeleteRecordsRequest DeleteRecordsResponse DeleteRecords 0 2,
    DeleteTopicsRequest DeleteTopicsResponse DeleteTopics 1 6,
    DescribeConfigsRequest DescribeConfigsResponse DescribeConfigs 1 4,
    FindCoordinatorRequest FindCoordinatorResponse FindCoordinator 1 6,
    HeartbeatRequest HeartbeatResponse Heartbeat 3 4,
    IncrementalAlterConfigsRequest IncrementalAlterConfigsResponse IncrementalAlterConfigs 0 1,
    JoinGroupRequest JoinGroupResponse JoinGroup 5 9,
    LeaveGroupRequest LeaveGroupResponse LeaveGroup 3 5,
    ListOffsetsRequest ListOffsetsResponse ListOffsets 2 8,
    MetadataRequest MetadataResponse Metadata 5 12,
    OffsetCommitRequest OffsetCommitResponse OffsetCommit 7 9,
    OffsetFetchRequest OffsetFetchResponse OffsetFetch 7 9,
    SyncGroupRequest SyncGroupResponse SyncGroup 3 5,
}

// Only brokers with SASL need to know these.
api! { SaslHandshakeRequest SaslHandshakeResponse SaslHandshake 1 1 }
api! { SaslAuthenticateRequest SaslAuthenticateResponse SaslAuthenticate 0 2 }

/// What a broker speaks: its answer to ApiVersions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Versions {
    /// Lowest and highest by the request's key.
    ranges: BTreeMap<i16, (i16, i16)>,
}

impl Versions {
    /// The version to speak.
    pub(crate) fn of<R: Api>(&self) -> Result<i16> {
        let theirs = self.ranges.get(&R::KEY).copied();
        theirs.and_then(|theirs| agree(R::SPOKEN, theirs)).ok_or_else(|| {
            let text = |(low, high): (i16, i16)| format!("{low} to {high}");
            unsupported(R::NAME)
                .with("ours", text(R::SPOKEN))
                .with("the broker's", theirs.map_or_else(|| "none".to_owned(), text))
        })
    }

    /// Reads the body of an answer, from its error code on; `flexible` from version 3 on. It is read by hand since it is
    /// the first thing that comes from whatever listens there, and a length in it must not be believed.
    ///
    /// `Err`: the error code, or `None` for what is no such answer.
    pub(crate) fn parse(body: &[u8], flexible: bool) -> std::result::Result<Self, Option<i16>> {
        let mut rest = Bytes { rest: body };
        match rest.i16().ok_or(None)? {
            0 => {}
            code => return Err(Some(code)),
        }
        let count =
            if flexible { rest.varint().ok_or(None)?.checked_sub(1).ok_or(None)? } else { rest.u32().ok_or(None)? };
        let mut ranges = BTreeMap::new();
        for _ in 0..count {
            let (key, low, high) = rest.range(flexible).ok_or(None)?;
            ranges.insert(key, (low, high));
        }
        if ranges.is_empty() { Err(None) } else { Ok(Self { ranges }) }
    }
}

/// The error for a broker that is too old or too new.
pub(crate) fn unsupported(api: &'static str) -> Error {
    error::of_broker("agree on versions with a broker", code::UNSUPPORTED_VERSION).with("request", api)
}

/// The highest version in both ranges.
fn agree(ours: (i16, i16), theirs: (i16, i16)) -> Option<i16> {
    let highest = ours.1.min(theirs.1);
    (highest >= ours.0.max(theirs.0)).then_some(highest)
}

/// Foreign bytes, read from the front.
struct Bytes<'a> {
    rest: &'a [u8],
}

impl Bytes<'_> {
    fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*head)
    }

    fn i16(&mut self) -> Option<i16> {
        self.fixed().map(i16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.fixed().map(u32::from_be_bytes)
    }

    fn varint(&mut self) -> Option<u32> {
        let mut value = 0u32;
        for shift in (0..35).step_by(7) {
            let [byte] = self.fixed()?;
            value |= u32::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A key with its lowest and highest version, and its tagged fields.
    fn range(&mut self, flexible: bool) -> Option<(i16, i16, i16)> {
        let range = (self.i16()?, self.i16()?, self.i16()?);
        if flexible {
            for _ in 0..self.varint()? {
                let _tag = self.varint()?;
                let len = usize::try_from(self.varint()?).ok()?;
                self.rest = self.rest.get(len..)?;
            }
        }
        Some(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::code_of;
    use kafka_protocol::messages::{JoinGroupRequest, OffsetCommitRequest, OffsetFetchRequest};
    use proptest::prelude::*;

    fn versions(rows: &[(i16, i16, i16)]) -> Versions {
        Versions { ranges: rows.iter().map(|&(key, low, high)| (key, (low, high))).collect() }
    }

    #[test]
    fn the_highest_that_both_know() {
        assert_eq!(agree((1, 6), (0, 3)), Some(3));
        assert_eq!(agree((1, 6), (2, 9)), Some(6));
        assert_eq!(agree((4, 4), (4, 4)), Some(4));
        assert_eq!(agree((3, 5), (0, 2)), None, "a broker of old");
        assert_eq!(agree((3, 5), (6, 9)), None, "a broker of the future");
    }

    #[test]
    fn an_old_broker_is_named_by_what_it_lacks() {
        let old = versions(&[(OffsetFetchRequest::KEY, 0, 6)]);
        let error = old.of::<OffsetFetchRequest>().unwrap_err();
        assert_eq!(code_of(&error), Some(code::UNSUPPORTED_VERSION));
        let text = error.to_string();
        for part in ["fatal", "request=`OffsetFetch`", "ours=`7 to 9`", "the broker's=`0 to 6`", "Kafka 2.5 or later"] {
            assert!(text.contains(part), "{text}");
        }
        let error = old.of::<JoinGroupRequest>().unwrap_err();
        assert!(error.to_string().contains("the broker's=`none`"), "{error}");
        assert!(old.suffice().is_err());
    }

    #[test]
    fn kafka_2_5_and_kafka_4_suffice() {
        let kafka_2_5 = [
            (2, 0, 5),
            (3, 0, 9),
            (8, 0, 8),
            (9, 0, 7),
            (10, 0, 3),
            (11, 0, 7),
            (12, 0, 4),
            (13, 0, 4),
            (14, 0, 5),
            (19, 0, 5),
            (20, 0, 4),
            (21, 0, 1),
            (32, 0, 2),
            (44, 0, 1),
        ];
        let kafka_4_4 = [
            (2, 1, 11),
            (3, 0, 13),
            (8, 2, 10),
            (9, 1, 10),
            (10, 0, 6),
            (11, 0, 9),
            (12, 0, 4),
            (13, 0, 5),
            (14, 0, 5),
            (19, 2, 7),
            (20, 1, 6),
            (21, 0, 2),
            (32, 1, 4),
            (44, 0, 1),
        ];
        versions(&kafka_2_5).suffice().unwrap();
        versions(&kafka_4_4).suffice().unwrap();
        assert_eq!(versions(&kafka_2_5).of::<JoinGroupRequest>().unwrap(), 7);
        assert_eq!(versions(&kafka_4_4).of::<OffsetCommitRequest>().unwrap(), 9);
    }

    #[test]
    fn both_layouts_are_read() {
        let want = versions(&[(18, 0, 4), (3, 1, 9)]);
        let old = b"\x00\x00\x00\x00\x00\x02\x00\x12\x00\x00\x00\x04\x00\x03\x00\x01\x00\x09";
        assert_eq!(Versions::parse(old, false), Ok(want.clone()));
        let flexible =
            b"\x00\x00\x03\x00\x12\x00\x00\x00\x04\x00\x00\x03\x00\x01\x00\x09\x01\x05\x02xy\x00\x00\x00\x00\x00";
        assert_eq!(Versions::parse(flexible, true), Ok(want));
        assert_eq!(Versions::parse(b"\x00\x23\x00\x00\x00\x00", true), Err(Some(35)));
        for cut in 0..old.len() {
            assert_eq!(Versions::parse(&old[..cut], false), Err(None), "cut at {cut}");
        }
        assert_eq!(Versions::parse(b"\x00\x00\xff\xff\xff\xff\x00\x01", false), Err(None), "a length that is not so");
        assert_eq!(Versions::parse(b"\x00\x00\x00", true), Err(None), "null");
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), flexible: bool) {
            let _ = Versions::parse(&bytes, flexible);
            let _ = Versions::parse(&[&[0, 0], &bytes[..]].concat(), flexible);
        }
    }
}

//! The cut tag on records between sub-topologies: what lets a consistent snapshot be taken without stopping anything.

use millpond_broker_api::Headers;

use crate::wire::{Reader, put_uleb};

/// The name of the header. It is the library's own: a reader takes it off before a processor sees the record.
pub const CUT_HEADER: &str = "__cut";

const VERSION: u8 = 1;

/// What a record with the header is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CutKind {
    /// A record of the application.
    Tag = 0,
    /// A record of the library: its sender has cut here. No processor, queue or clock ever sees it.
    Marker = 1,
}

/// Who sent a record, and after which of its cuts (see `docs/formats/cut.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cut {
    /// The application's timeline: raised by each rollback; 0 at first.
    pub timeline: u32,
    /// The last cut that the sender took before it sent the record; 0 before the first.
    pub generation: u64,
    /// The sender's sub-topology.
    pub sub_topology: u32,
    /// The sender's partition.
    pub partition: u32,
}

/// A header's value in place: a task encodes it once per generation and puts it on all its records.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CutBytes {
    bytes: [u8; Self::MAX],
    len: u8,
}

impl CutBytes {
    /// Version, kind, timeline, and three LEB128 numbers of 64, 32 and 32 bits.
    const MAX: usize = 1 + 1 + 4 + 10 + 5 + 5;

    /// The header's value.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl std::fmt::Debug for CutBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_slice().fmt(f)
    }
}

impl Cut {
    /// The header's value.
    pub fn encode(&self, kind: CutKind) -> CutBytes {
        let mut value = Vec::with_capacity(CutBytes::MAX);
        value.extend_from_slice(&[VERSION, kind as u8]);
        value.extend_from_slice(&self.timeline.to_be_bytes());
        put_uleb(&mut value, self.generation);
        put_uleb(&mut value, self.sub_topology.into());
        put_uleb(&mut value, self.partition.into());
        let mut bytes = [0; CutBytes::MAX];
        bytes.iter_mut().zip(&value).for_each(|(to, from)| *to = *from);
        CutBytes { bytes, len: value.len() as u8 }
    }
}

/// What a reader does with a record of an internal topic. Only [`CutClass::Untagged`] and [`CutClass::Tag`] go on to
/// timestamps, queues and processors; the others are dropped before that, and counted.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutClass {
    /// No header: a record of the application, from a writer that knows no cuts (Kafka Streams).
    Untagged,
    /// A record of the application.
    Tag(Cut),
    /// A marker: drop it.
    Marker(Cut),
    /// A header of a later version or of a foreign writer: drop the record.
    Unknown(UnknownCut),
}

/// Why a header is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnknownCut {
    /// Its version.
    Version(u8),
    /// Its kind.
    Kind(u8),
    /// It is null, ends early or holds a number that is too large.
    Malformed,
}

impl CutClass {
    /// True if the record goes on to the application.
    pub const fn is_data(&self) -> bool {
        matches!(self, Self::Untagged | Self::Tag(_))
    }

    /// Reads the last header of the name [`CUT_HEADER`].
    pub fn of(headers: Headers<'_>) -> Self {
        match headers.last(CUT_HEADER) {
            None => Self::Untagged,
            Some(header) => Self::decode(header.value.unwrap_or_default()),
        }
    }

    /// Reads a header's value. Bytes behind the known fields are ignored, so that fields can be added.
    pub fn decode(value: &[u8]) -> Self {
        Self::read(Reader::new(value)).unwrap_or(Self::Unknown(UnknownCut::Malformed))
    }

    fn read(mut read: Reader<'_>) -> Option<Self> {
        match read.u8()? {
            VERSION => {}
            version => return Some(Self::Unknown(UnknownCut::Version(version))),
        }
        let class = match read.u8()? {
            0 => Self::Tag,
            1 => Self::Marker,
            kind => return Some(Self::Unknown(UnknownCut::Kind(kind))),
        };
        Some(class(Cut {
            timeline: read.u32()?,
            generation: read.uleb()?,
            sub_topology: read.uleb()?,
            partition: read.uleb()?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use millpond_broker_api::{Header, Record, Records};
    use proptest::prelude::*;

    use super::*;

    /// The bytes of `docs/formats/cut.md`.
    const GOLDEN: [(CutKind, Cut, &[u8]); 3] = [
        (CutKind::Tag, Cut { timeline: 0, generation: 0, sub_topology: 1, partition: 3 }, &[1, 0, 0, 0, 0, 0, 0, 1, 3]),
        (
            CutKind::Marker,
            Cut { timeline: 2, generation: 300, sub_topology: 0, partition: 200 },
            &[1, 1, 0, 0, 0, 2, 0xAC, 0x02, 0, 0xC8, 0x01],
        ),
        (
            CutKind::Tag,
            Cut { timeline: u32::MAX, generation: u64::MAX, sub_topology: u32::MAX, partition: u32::MAX },
            &[
                1, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1, 0xFF, 0xFF,
                0xFF, 0xFF, 15, 0xFF, 0xFF, 0xFF, 0xFF, 15,
            ],
        ),
    ];

    #[test]
    fn golden_bytes() {
        for (kind, cut, bytes) in GOLDEN {
            assert_eq!(cut.encode(kind).as_slice(), bytes);
            let class = if kind == CutKind::Tag { CutClass::Tag(cut) } else { CutClass::Marker(cut) };
            assert_eq!(CutClass::decode(bytes), class);
        }
    }

    #[test]
    fn what_is_not_understood_is_no_data() {
        use UnknownCut::{Kind, Malformed, Version};
        let cases: [(&[u8], UnknownCut); 7] = [
            (&[], Malformed),
            (&[1], Malformed),
            (&[2], Version(2)),
            (&[0, 0, 0, 0, 0, 0, 0, 0, 0], Version(0)),
            (&[1, 2], Kind(2)),
            (&[1, 0, 0, 0, 0, 0, 0, 1], Malformed),
            (&[1, 0, 0, 0, 0, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F], Malformed),
        ];
        for (bytes, why) in cases {
            let class = CutClass::decode(bytes);
            assert_eq!(class, CutClass::Unknown(why));
            assert!(!class.is_data());
        }
    }

    #[test]
    fn later_fields_are_ignored() {
        let (_, cut, bytes) = GOLDEN[0];
        let longer = [bytes, &[9, 9]].concat();
        assert_eq!(CutClass::decode(&longer), CutClass::Tag(cut));
    }

    struct One(Vec<(&'static str, Option<Vec<u8>>)>);

    impl Records for One {
        fn len(&self) -> usize {
            1
        }

        fn get(&self, _: usize) -> Option<Record<'_>> {
            None
        }

        fn header(&self, _: usize, n: usize) -> Option<Header<'_>> {
            self.0.get(n).map(|(name, value)| Header { name, value: value.as_deref() })
        }
    }

    #[test]
    fn the_last_header_of_the_name_counts() {
        let cut = Cut { generation: 7, ..Cut::default() };
        let bytes = |kind| Some(cut.encode(kind).as_slice().to_vec());
        let of = |headers: Vec<_>| CutClass::of(Headers::new(&One(headers), 0));
        assert_eq!(of(vec![]), CutClass::Untagged);
        assert_eq!(of(vec![("other", Some(vec![1]))]), CutClass::Untagged);
        assert_eq!(of(vec![(CUT_HEADER, None)]), CutClass::Unknown(UnknownCut::Malformed));
        assert_eq!(
            of(vec![(CUT_HEADER, bytes(CutKind::Tag)), (CUT_HEADER, bytes(CutKind::Marker)), ("other", None)]),
            CutClass::Marker(cut)
        );
        assert!(CutClass::Untagged.is_data() && CutClass::Tag(cut).is_data() && !CutClass::Marker(cut).is_data());
    }

    proptest! {
        #[test]
        fn comes_back(timeline: u32, generation: u64, sub_topology: u32, partition: u32) {
            let cut = Cut { timeline, generation, sub_topology, partition };
            prop_assert_eq!(CutClass::decode(cut.encode(CutKind::Tag).as_slice()), CutClass::Tag(cut));
            prop_assert_eq!(CutClass::decode(cut.encode(CutKind::Marker).as_slice()), CutClass::Marker(cut));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = CutClass::decode(&bytes);
        }
    }
}

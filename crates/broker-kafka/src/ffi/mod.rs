//! librdkafka's C API behind owning types: the only `unsafe` code of Millpond.
//!
//! | type | owns |
//! |---|---|
//! | [`Conf`] | settings of a client to be |
//! | [`Reader`] | a consumer by manual assignment, its queue, its [`Signal`] |
//! | [`Messages`] | what a reader has lent |
//! | [`Writer`] | a producer, its [`Topic`]s, its queue of [`Event`]s |
//! | [`Partitions`] | a list of partitions with offsets |

#![expect(unsafe_code, reason = "the only place that calls librdkafka's C API")]

mod conf;
mod event;
mod failure;
mod handle;
mod messages;
mod partitions;
mod reader;
mod signal;
mod writer;

pub(crate) use conf::Conf;
pub(crate) use event::{Event, Events, Report, Returned};
pub(crate) use failure::{Failure, Outcome, code};
pub(crate) use handle::{Complaint, Topic};
pub(crate) use messages::Messages;
pub(crate) use partitions::Partitions;
pub(crate) use reader::Reader;
pub(crate) use signal::Signal;
pub(crate) use writer::{Membership, Produce, Writer};

//! One measurement of Millpond in one process: the counterpart of the Java programs in `xtask/peer`, whose README says what
//! is measured and how. `cargo xtask bench peer` runs it.
//!
//! ```text
//! peer streams bootstrap=B app=ID job=count|copy|reduce100 input=T output=T state=DIR records=N [guarantee=alos|eos]
//!              [commit=MS] [threads=N] [check=0|1] [conf.KEY=VALUE]... [client.KEY=VALUE]...
//! peer raw     bootstrap=B app=ID mode=consume|copy|copy-eos input=T output=T records=N [commit=MS] [client.KEY=VALUE]...
//! ```
//!
//! `conf.` is for the application's settings, `client.` for those of its Kafka clients (`producer.linger.ms`).
//! The events are lines of JSON on standard output. `streams` with `records=0` ends when the application runs, with
//! `records=-1` it reports its progress until it is killed. `bootstrap=embedded` is a trial without Kafka: the input is made
//! in this process (`records` of them with `keys` keys), and the broker's CPU time and memory are in the figures.

mod embedded;
mod event;
mod figures;
mod job;
mod raw;
mod read_back;
mod restore;
mod streams;
#[cfg(test)]
mod tests;
mod usage;
mod workload;

use std::process::ExitCode;

use millpond_broker_api::Broker;
use millpond_broker_kafka::{KafkaBroker, KafkaSettings};

use millpond_bench::{args, error};

use crate::args::Args;
use crate::error::{Result, spell};
use crate::event::Events;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match connect(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peer: {}", spell(&*error));
            ExitCode::FAILURE
        }
    }
}

/// The only place that knows which clusters there are.
fn connect(words: &[String]) -> Result {
    let (program, words) = words.split_first().ok_or("the first word is `streams` or `raw`")?;
    let args = Args::parse(words)?;
    match args.get("bootstrap")? {
        "embedded" => run(program, embedded::filled(&args)?, &args),
        servers => run(program, KafkaBroker::new(kafka(servers, &args)?), &args),
    }
}

/// The clients' settings: the library's own, and what is set under `client.`.
fn kafka(servers: &str, args: &Args) -> Result<KafkaSettings> {
    let mut settings = KafkaSettings::new(servers);
    for (key, value) in args.under("client.") {
        settings.set(key, value)?;
    }
    Ok(settings)
}

fn run<B: Broker + Clone + 'static>(program: &str, broker: B, args: &Args) -> Result {
    let mut events = Events::to(std::io::stdout());
    match program {
        "streams" => streams::run(broker, args, &mut events),
        "raw" => raw::run(&broker, args, &mut events),
        other => Err(format!("the first word is `streams` or `raw`, not `{other}`").into()),
    }
}

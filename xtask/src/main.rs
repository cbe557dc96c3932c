//! The project's own commands: `cargo xtask --help` lists them.

mod absences;
mod bench;
mod cargo;
mod ci;
mod clock;
mod conformance;
mod demo;
mod doc;
mod error;
mod fix;
mod flags;
mod kafka;
mod layers;
mod setup;
mod size;
mod test;
mod test_broker;
mod tidy;

use std::process::ExitCode;

use crate::error::{Error, Result};
use crate::flags::Command;

fn main() -> ExitCode {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    match flags::parse(&arguments).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if let Some(message) = error.message() {
                eprintln!("error: {message}");
            }
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Help(text) => {
            print!("{text}");
            Ok(())
        }
        Command::Setup => setup::run(),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Kafka(command) => kafka::run(&command),
        Command::Test(options) => test::run(&options),
        Command::Ci(options) => ci::run(&options),
        Command::Conformance(options) => conformance::run(&options),
        Command::Layers => layers::run().and_then(|()| absences::run()),
        Command::Tidy => tidy::run(),
        Command::Bench(options) => bench::run(&options),
        Command::Size(arguments) => size::run(&arguments),
        Command::Doc(options) => doc::run(&options),
        Command::Fix => fix::run(),
    }
}

/// Turns a list of complaints into one error, or into nothing when there are none.
fn report(what: &str, complaints: &[String]) -> Result<()> {
    if complaints.is_empty() {
        println!("{what}: ok");
        return Ok(());
    }
    for complaint in complaints {
        eprintln!("{complaint}");
    }
    Err(Error::failed(format!("{what}: {} complaint(s), listed above", complaints.len())))
}

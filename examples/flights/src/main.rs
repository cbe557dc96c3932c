//! The program `flights`: reads the command line, runs the demo, prints the totals.

use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use millpond_example_flights::demo::demo;
use millpond_example_flights::error::{Error, ErrorKind, Result};
use millpond_example_flights::options::{Command, DemoOptions, Options};
use millpond_example_flights::ports::Ports;
use millpond_example_flights::show::to_json;
use millpond_example_flights::view::View;

fn main() -> ExitCode {
    let Options { command: Command::Demo(options) } = Options::parse();
    let Err(error) = run(&options) else { return ExitCode::SUCCESS };
    eprintln!("error: {}", error.report());
    ExitCode::from(match error.kind() {
        ErrorKind::Failed => 1,
        ErrorKind::Usage => 2,
        ErrorKind::Interrupted => 130,
    })
}

fn run(options: &DemoOptions) -> Result<()> {
    let ports = Ports::default();
    let stop = ports.stop.clone();
    let handled = ctrlc::set_handler(move || stop.stop());
    handled.map_err(|error| Error::failed("cannot listen for Ctrl-C").caused_by(error))?;

    let totals = demo(options, &ports, &mut View::on_stderr())?;
    let json = to_json(&totals)?;
    let printed = io::stdout().write_all(json.as_bytes());
    printed.map_err(|error| Error::failed("cannot print the totals").caused_by(error))?;
    let Some(file) = &options.json else { return Ok(()) };
    let written = fs::write(file, json);
    written.map_err(|error| Error::failed("cannot write the totals").with("file", file.display()).caused_by(error))
}

//! The program `flights`: reads the command line, runs one of the parts, prints the results.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use millpond_example_flights::demo::demo;
use millpond_example_flights::error::{Error, ErrorKind, Result};
use millpond_example_flights::load::load;
use millpond_example_flights::options::{Command, Options};
use millpond_example_flights::ports::Ports;
use millpond_example_flights::run::run;
use millpond_example_flights::show::{Results, show};
use millpond_example_flights::view::View;

fn main() -> ExitCode {
    let Options { command } = Options::parse();
    let Err(error) = execute(&command) else { return ExitCode::SUCCESS };
    eprintln!("error: {}", error.report());
    ExitCode::from(match error.kind() {
        ErrorKind::Failed => 1,
        ErrorKind::Usage => 2,
        ErrorKind::Interrupted => 130,
    })
}

fn execute(command: &Command) -> Result<()> {
    let ports = Ports::default();
    let stop = ports.stop.clone();
    let handled = ctrlc::set_handler(move || stop.stop());
    handled.map_err(|error| Error::failed("cannot listen for Ctrl-C").caused_by(error))?;
    let view = &mut View::on_stderr();
    match command {
        Command::Demo(options) => print(&demo(options, &ports, view)?, options.json.as_ref()),
        Command::Load(options) => {
            log_warnings();
            load(options, &ports, view)
        }
        Command::Run(options) => {
            log_warnings();
            run(options, &ports, view)
        }
        Command::Show(options) => print(&show(options, &ports.stop)?, options.json.as_ref()),
    }
}

/// What the library warns of goes to the standard error stream; `RUST_LOG` asks for more, or less.
fn log_warnings() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env();
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    let ansi = io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(ansi).with_writer(io::stderr).init();
}

/// The results on the standard output; how much there is on the standard error stream, where it is not lost among them.
fn print(results: &Results, file: Option<&PathBuf>) -> Result<()> {
    let json = results.to_json()?;
    let printed = io::stdout().write_all(json.as_bytes());
    printed.map_err(|error| Error::failed("cannot print the results").caused_by(error))?;
    eprintln!("{}", results.summary());
    let Some(file) = file else { return Ok(()) };
    let written = fs::write(file, json);
    written.map_err(|error| Error::failed("cannot write the results").with("file", file.display()).caused_by(error))
}

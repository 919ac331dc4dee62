//! Child processes that take commands and answer in JSON, one line each.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::Result;
use crate::clock::Sample;

/// Which program answers.
#[derive(Debug, Clone)]
pub enum Program {
    /// The reference packages, under this Python.
    Reference(PathBuf),
    /// The formats of the field, under the Python of their own environment.
    Field(PathBuf),
    /// This program.
    Ours,
}

impl Program {
    /// The reference under the given Python, or under that of the private environment, which is
    /// made on first use.
    ///
    /// # Errors
    ///
    /// When the environment cannot be made.
    pub fn reference(python: Option<&Path>) -> Result<Self> {
        if let Some(python) = python {
            return Ok(Self::Reference(python.to_owned()));
        }
        Ok(Self::Reference(environment("reference-env.sh")?))
    }

    /// The formats of the field under the Python of their environment, which is made on first use.
    ///
    /// # Errors
    ///
    /// When the environment cannot be made.
    pub fn field() -> Result<Self> {
        Ok(Self::Field(environment("peers-env.sh")?))
    }

    /// Starts the program.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub fn start(&self) -> Result<Peer> {
        let mut command = match self {
            Self::Reference(python) | Self::Field(python) => {
                let mut command = Command::new(python);
                // Bytecode files would lie in the source tree.
                command.arg("-B");
                let script = match self {
                    Self::Field(_) => "python/field_bench.py",
                    _ => "python/reference_bench.py",
                };
                command.arg(crate_folder().join(script));
                // Set on some machines for other programs; NumPy must choose for itself.
                command.env_remove("OPENBLAS_CORETYPE");
                command.env_remove("OPENBLAS_L2_SIZE");
                command
            }
            Self::Ours => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg("--serve");
                command
            }
        };
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(commands), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the child process has no pipes".into());
        };
        Ok(Peer { child, commands: Some(commands), answers: BufReader::new(answers) })
    }

    /// Runs one command in a process of its own.
    ///
    /// # Errors
    ///
    /// As [`Peer::call`].
    pub fn once(&self, command: &Value) -> Result<Value> {
        self.start()?.call(command)
    }
}

/// A running child process; it ends with its value.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// Sends a command and waits for the answer.
    ///
    /// # Errors
    ///
    /// When the child has ended or says that the command failed.
    pub fn call(&mut self, command: &Value) -> Result<Value> {
        let commands = self.commands.as_mut().ok_or("the child process is gone")?;
        commands.write_all(format!("{command}\n").as_bytes())?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        if line.is_empty() {
            return Err(format!("the child process ended on {command}").into());
        }
        let answer: Value = serde_json::from_str(&line)?;
        match answer.get("error") {
            Some(error) => Err(format!("{command}: {error}").into()),
            None => Ok(answer),
        }
    }

    /// The same for a command whose answer is a measurement.
    ///
    /// # Errors
    ///
    /// As [`Peer::call`].
    pub fn sample(&mut self, command: &Value) -> Result<Sample> {
        let answer = self.call(command)?;
        Ok(Sample { cpu: number(&answer, "cpu")?, wall: number(&answer, "wall")? })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The end of its input tells the child to end.
        self.commands = None;
        let _ = self.child.wait();
    }
}

/// A member of an answer that must be a number.
///
/// # Errors
///
/// When it is not.
pub fn number(answer: &Value, name: &str) -> Result<f64> {
    let value = answer.get(name).and_then(Value::as_f64);
    value.ok_or_else(|| format!("no number {name} in {answer}").into())
}

/// A member of a command that must be text.
///
/// # Errors
///
/// When it is not.
pub fn text<'a>(command: &'a Value, name: &str) -> Result<&'a str> {
    let value = command.get(name).and_then(Value::as_str);
    value.ok_or_else(|| format!("the command has no text {name}").into())
}

/// A member of a command that must be a whole number.
///
/// # Errors
///
/// When it is not.
pub fn integer(command: &Value, name: &str) -> Result<u64> {
    let value = command.get(name).and_then(Value::as_u64);
    value.ok_or_else(|| format!("the command has no number {name}").into())
}

/// The Python that a script prints.
fn environment(script: &str) -> Result<PathBuf> {
    let script = crate_folder().join("../scripts").join(script);
    let output = Command::new(&script).stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{} could not make its environment", script.display()).into());
    }
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim_end()))
}

fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

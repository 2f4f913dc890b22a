//! A container that runs nothing: its one check reads one file, as a test's script would.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jobs::id::RunId;
use jobs::step::{SealReport, SealTest};
use runners::egress::Sealed;
use runners::sandbox::{Capabilities, Cause, Command, Container, ContainerSpec, Exit, Sandbox, SandboxError};

use crate::world::Trouble;

pub struct Simulated(pub Arc<Trouble>);

#[async_trait]
impl Sandbox for Simulated {
    fn probe(&self) -> Capabilities {
        Capabilities { backend: "simulated", kernel: "none".to_owned(), findings: Vec::new() }
    }

    fn owner(&self) -> Option<(u32, u32)> {
        None
    }

    async fn create(&self, spec: ContainerSpec) -> Result<Box<dyn Container>, SandboxError> {
        Ok(Box::new(Inside { workspace: spec.workspace, trouble: Arc::clone(&self.0) }))
    }

    async fn reap(&self, _: RunId) -> Result<(), SandboxError> {
        Ok(())
    }
}

struct Inside {
    workspace: PathBuf,
    trouble: Arc<Trouble>,
}

#[async_trait]
impl Container for Inside {
    async fn exec(&mut self, _: Command) -> Result<Exit, SandboxError> {
        if self.trouble.comes("container") {
            let source = std::io::Error::other("it is gone");
            return Err(SandboxError::Lost { while_doing: "checking".to_owned(), source });
        }
        let value = std::fs::read_to_string(self.workspace.join("value")).unwrap_or_default();
        let (word, code) = if value == "right\n" { ("ok", 0) } else { ("not ok", 1) };
        Ok(Exit {
            cause: Cause::Exited(code),
            stdout: format!("1..1\n{word} 1 - value\n").into_bytes(),
            stderr: Vec::new(),
            duration: Duration::from_millis(1),
        })
    }

    async fn seal(&mut self, _: &Sealed) -> Result<SealReport, SandboxError> {
        Ok(SealReport {
            backend: "simulated".to_owned(),
            kernel: "none".to_owned(),
            landlock_abi: None,
            policy: None,
            limits_tier: "none".to_owned(),
            limits: Vec::new(),
            egress: None,
            tests: vec![SealTest {
                name: "simulated".to_owned(),
                closed: true,
                evidence: "nothing runs in it".to_owned(),
            }],
        })
    }

    async fn destroy(&mut self) -> Result<(), SandboxError> {
        Ok(())
    }
}

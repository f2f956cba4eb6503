//! A swarm of one inside this process, for commands that find no other: the same node and the
//! same API as a gateway has, on a loopback port that only this command knows the token of.

use super::client::{Endpoint, random_hex};
use super::failure::Failure;
use crate::api::ApiOptions;
use crate::assemble::{Assembly, NodeParts, assemble};
use crate::config::processors;
use crate::identity::Identity;
use crate::paths::DataFolder;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// For the node's thread to end. Our choice: the engine kills its processes at once.
const END: Duration = Duration::from_secs(2);

/// The swarm; gone when dropped, with all that it kept.
pub(crate) struct Embedded {
    assembly: Assembly,
    runtime: Option<Runtime>,
    /// For compiled modules, when there is no lasting place.
    cache: Option<tempfile::TempDir>,
}

impl Embedded {
    pub(crate) fn start(folder: &DataFolder) -> Result<(Embedded, Endpoint), Failure> {
        let no = |what: &str, e: &dyn std::fmt::Display| {
            Failure::unreachable(format!("no gateway runs here, and {what} for a swarm in this process: {e}"))
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            // The node, the API and the disk; tasks run in processes of their own.
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|e| no("there are no threads", &e))?;
        let token = random_hex::<32>()?;
        // Compiled programs stay in the data folder; without a data folder, they are kept only for this run.
        let cache = match folder.create() {
            Ok(()) => None,
            Err(_) => Some(tempfile::tempdir().map_err(|e| no("there is no temporary folder", &e))?),
        };
        let parts = NodeParts {
            identity: Identity::fresh()?,
            state: None,
            cache: cache.as_ref().map_or(folder.cache(), |cache| cache.path().to_path_buf()),
            config: node_core::Config {
                name: "this process".into(),
                gateway: true,
                // The person waits for nothing else: all processors.
                slots: processors(),
                ..node_core::Config::default()
            },
            cpu_share: 100,
            listen: None,
            hosts: crate::api::Hosts::default(),
            founds: false,
        };
        let (assembly, url) = runtime.block_on(async {
            let assembly = assemble(parts).await?;
            assembly.node.ready().await.map_err(|e| no("the node ended", &e))?;
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
                .await
                .map_err(|e| no("there is no loopback port", &e))?;
            let at = listener.local_addr().map_err(|e| no("there is no loopback port", &e))?;
            let options = ApiOptions::new(token.clone());
            let node = assembly.node.clone();
            tokio::spawn(async move {
                if let Err(e) = crate::api::serve(options, node, listener, std::future::pending()).await {
                    tracing::error!("the API of this process ended: {e}");
                }
            });
            Ok::<_, Failure>((assembly, super::beacon::local_url(at)))
        })?;
        let endpoint = Endpoint { url, token: Some(token) };
        Ok((Embedded { assembly, runtime: Some(runtime), cache }, endpoint))
    }

    /// Folders to remove when the process ends without dropping this.
    pub(crate) fn litter(&self) -> Vec<PathBuf> {
        let blobs = self.assembly.node.storage().blob_dir();
        let state = blobs.parent().map(Path::to_path_buf);
        state.into_iter().chain(self.cache.as_ref().map(|cache| cache.path().to_path_buf())).collect()
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.assembly.node.stop();
        if let Some(runtime) = self.runtime.take() {
            // Its tasks are ended, and what it kept for this run is removed.
            let stopped = self.assembly.node.stopped();
            let _ = runtime.block_on(async { tokio::time::timeout(END, stopped).await });
            // The job is over and its outputs are out: nothing is worth waiting for.
            runtime.shutdown_timeout(Duration::from_millis(200));
        }
    }
}

//! Files: kept by as many others as was asked for, whoever comes and goes, and no more than is given.

mod keeping;
mod losses;
mod paying;
mod renewing;

use bytes::Bytes;
use node_core::address::Contact;
use node_core::content::BlobRef;
use node_core::files::owner::FileView;
use node_core::files::{CHUNK, FilesConfig, Manifest, Whereabouts};
use node_core::keys::Secret;
use node_core::ledger::books::Rules;
use node_core::market::MarketConfig;
use node_core::money::{Micro, Price};
use node_core::node::config::{BankPart, MarketPart, RecordsPart};
use node_core::overlay::ring::RingConfig;
use node_core::record::Key;
use node_core::records::RecordsConfig;
use node_core::{BlobId, Command, Config, NodeEvent, NodeInput};
use simulator::World;
use std::sync::Arc;
use std::time::Duration;

const A_MINUTE: Duration = Duration::from_secs(60);

const MIB: u64 = 1 << 20;

fn secret(n: usize) -> Secret {
    Secret::from_bytes(&[n as u8 + 1; 32])
}

/// Keepers are asked for proof each minute.
fn giving(bytes: u64) -> FilesConfig {
    FilesConfig { audit: A_MINUTE, ..FilesConfig::giving(bytes) }
}

fn config(n: usize, files: FilesConfig) -> Config {
    Config {
        gateway: n == 0,
        slots: 0,
        port: Some(4001),
        name: format!("node {n}"),
        ring: Some(Arc::new(RingConfig::default())),
        records: Some(RecordsPart { config: Arc::new(RecordsConfig::default()), secret: secret(n) }),
        files: Some(Arc::new(files)),
        ..Config::default()
    }
}

/// A gateway that gives nothing, and so many nodes that give so much.
fn swarm(seed: u64, nodes: usize, bytes: u64) -> World {
    let mut world = World::seed(seed);
    for n in 0..=nodes {
        let files = giving(if n == 0 { 0 } else { bytes });
        let at = world.add_keyed(config(n, files), &secret(n));
        if at > 0 {
            world.connect(0, at);
        }
    }
    world.run_for(A_MINUTE);
    world
}

/// Like [`swarm`], where space is sold: node n for n times `cost`. The last node is the bank. The owner, node
/// 0, has no credit before [`paying::endow`].
fn trading(seed: u64, nodes: usize, cost: u64, files: FilesConfig) -> World {
    let mut world = World::seed(seed);
    for n in 0..=nodes + 1 {
        let bytes = if (1..=nodes).contains(&n) { files.bytes } else { 0 };
        let cost = Price(cost * n as u64);
        let files = FilesConfig { cost, ..FilesConfig { bytes, ..files.clone() } };
        let market = MarketPart { config: Arc::new(MarketConfig::default()), secret: secret(n) };
        let rules = (n > nodes).then(Rules::default);
        let bank = BankPart { secret: secret(n), bank: Some(secret(nodes + 1).node()), rules };
        let gateway = n == 0 || n > nodes;
        let config = Config { gateway, market: Some(market), bank: Some(bank), ..config(n, files) };
        let at = world.add_keyed(config, &secret(n));
        if at > 0 {
            world.connect(0, at);
        }
    }
    (1..=nodes).for_each(|at| world.connect(nodes + 1, at));
    world.run_for(A_MINUTE * 3);
    world
}

/// Settings of a node that sells space and gives none for nothing.
fn selling(bytes: u64) -> FilesConfig {
    FilesConfig { gift: false, ..giving(bytes) }
}

fn content(seed: u64, len: u64) -> Vec<u8> {
    (0..len).map(|at| (at ^ (at >> 8) ^ (at >> 16) ^ seed) as u8).collect()
}

/// Puts content, as a gateway's API does; its content id.
fn put(world: &mut World, at: usize, content: &[u8], copies: u8) -> BlobId {
    put_for(world, at, content, copies, None)
}

fn put_for(world: &mut World, at: usize, content: &[u8], copies: u8, max_price: Option<u64>) -> BlobId {
    let chunks: Vec<BlobId> =
        content.chunks(CHUNK as usize).map(|chunk| world.upload(at, chunk).id).collect();
    let manifest = Manifest::new(content.len() as u64, false, None, chunks).expect("it may be");
    let id = world.upload(at, &manifest.encode());
    let (number, manifest) = (world.told.len() as u64, Box::new(manifest));
    let max_price = max_price.map(Micro);
    world.drive(
        at,
        NodeInput::Command(Command::PutFile { number, id, manifest, copies, max_price, shared: vec![] }),
    );
    let written = move |world: &World| {
        let is = |event: &NodeEvent| matches!(event, NodeEvent::FilePut { number: n, refused: None } if *n == number);
        world.told.iter().any(|(_, by, event)| *by == at && is(event))
    };
    world.run_until(A_MINUTE, "it is written down", written);
    id.id
}

fn file(world: &World, at: usize, id: BlobId) -> FileView {
    world.node(at).files(Some(id)).pop().expect("it owns the file")
}

/// The nodes that keep it, as its owner says.
fn keepers(world: &World, id: BlobId) -> Vec<usize> {
    let kept = file(world, 0, id).keepers.into_iter().filter(|keeper| keeper.kept);
    kept.filter_map(|keeper| world.find(keeper.node)).collect()
}

fn until_kept(world: &mut World, id: BlobId, copies: u8) {
    let kept = |world: &World| file(world, 0, id).kept == copies;
    world.run_until(A_MINUTE * 6, "enough keep it", kept);
    let keepers = keepers(world, id);
    assert!(!keepers.contains(&0), "others keep it");
    for at in keepers {
        let whole = |world: &World| {
            let kept = world.node(at).kept_files().expect("it has part in files");
            kept.files().any(|(_, file, _, whole, _)| file == id && whole)
        };
        assert!(whole(world), "node {at} says so, too");
    }
}

fn whereabouts(world: &mut World, at: usize, key: &Key) -> Option<Whereabouts> {
    let found = crate::records::read(world, at, key).ok()?;
    found.first().and_then(|found| Whereabouts::decode(&found.value))
}

fn bring(world: &mut World, at: usize, blob: BlobRef, from: &[Contact]) -> Result<Bytes, String> {
    let number = world.told.len() as u64;
    let (blobs, from) = (vec![blob], from.to_vec());
    world.drive(at, NodeInput::Command(Command::Bring { number, blobs, from }));
    let answer = |world: &World| {
        world.told.iter().rev().find_map(|(_, by, event)| match event {
            NodeEvent::Brought { number: n, result } if *n == number && *by == at => Some(result.clone()),
            _ => None,
        })
    };
    world.run_until(A_MINUTE * 4, "it came, or not", |w| answer(w).is_some());
    answer(world).expect("it was there").map_err(|why| why.to_string())?;
    let bytes = world.nodes[at].disk.blob(blob.id).cloned();
    world.drive(at, NodeInput::Command(Command::LetGo { number }));
    bytes.ok_or_else(|| "it is not on the disk".into())
}

/// Reads a file at a node that has no part in it, as a gateway's API does.
fn get(world: &mut World, at: usize, id: BlobId) -> Result<Vec<u8>, String> {
    let where_ = whereabouts(world, at, &Key::Keepers(id)).ok_or("nobody knows where it is")?;
    let manifest = bring(world, at, where_.manifest, &where_.at)?;
    let manifest = Manifest::decode(&manifest).map_err(|why| why.to_string())?;
    let parts: Vec<BlobRef> = manifest.parts().collect();
    let mut content = Vec::new();
    for part in parts {
        content.extend(bring(world, at, part, &where_.at)?);
    }
    Ok(content)
}

//! The markets: those that this gateway owns, those that it looked into, and copies that it keeps.

use super::ApiState;
use super::model::{Names, text};
use super::problem::Problem;
use axum::Json;
use axum::extract::State;
use node_core::goods::Goods;
use node_core::goods::Rule;
use node_core::goods::{Kind, Market, Scheme};
use node_core::market::SHOWN;
use node_core::market::buyer::Seen;
use node_core::market::owner::BookView;
use node_core::{Command, Node, NodeId, Platform, Time};
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Offers of one market that are shown, the cheapest. As many as other market operators tell.
const OFFERS: usize = SHOWN;

/// What is traded in this swarm, as far as this gateway has seen.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MarketState {
    /// How markets are found: `processor` or `single`; null in a swarm without markets.
    scheme: Option<&'static str>,
    /// Who sells, and at which price: `reverse_vickrey` or `max_min`.
    rule: Option<&'static str>,
    /// The bank of the swarm, as far as it is known.
    #[serde(serialize_with = "super::model::text_or_null")]
    #[schema(value_type = Option<String>)]
    bank: Option<NodeId>,
    commodities: Vec<Commodity>,
    /// How far this gateway has looked, by kind.
    looks: Vec<Looked>,
    /// What this gateway itself sells now.
    selling: Vec<Offer>,
}

/// The last look at all markets of a kind. They are looked at while somebody asks for them.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Looked {
    /// `cycles`, `checkpoints` or `files`.
    kind: &'static str,
    /// No market was left out, as far as their owners say what is so. Else some did not answer, or the
    /// look is not over yet.
    whole: bool,
    /// How long ago it ended; null: never.
    age_s: Option<u64>,
}

/// A range of capacities, and who sells there.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Commodity {
    /// `cycles`, `checkpoints` or `files`.
    kind: &'static str,
    /// The least and the most capacity: fuel a second, or bytes.
    least: u64,
    most: u64,
    /// This gateway owns the market.
    mine: bool,
    sellers: u32,
    /// The lowest cost that is listed, micro-credits for 10^9 of fuel or byte-seconds.
    cheapest: Option<u64>,
    /// The cheapest, at most 32.
    offers: Vec<Offer>,
    /// Whose word this is: the market's owner. Null for a copy that this gateway keeps and whose owner it
    /// has not asked.
    #[serde(serialize_with = "super::model::text_or_null")]
    #[schema(value_type = Option<String>)]
    owner: Option<NodeId>,
    /// How old that word is; null for a copy.
    age_s: Option<u64>,
    /// Of all sellers: slots, or pieces of space.
    units: u32,
    /// The highest cost that is listed.
    dearest: Option<u64>,
    /// The price of the last sale that the market's owner saw.
    last: Option<Paid>,
}

/// A seller was named at this price and had less right after.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(super) struct Paid {
    /// Micro-credits for 10^9 of fuel or byte-seconds.
    price: u64,
    /// How long ago.
    ago_s: u64,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Offer {
    #[serde(serialize_with = "text")]
    #[schema(value_type = String)]
    seller: NodeId,
    /// Empty if this gateway never met it.
    name: String,
    /// `cycles`, `checkpoints` or `files`.
    kind: &'static str,
    /// Of each unit: fuel a second, or bytes.
    capacity: u64,
    units: u16,
    /// For how long, minutes.
    minutes: u16,
    /// Micro-credits for 10^9 of fuel or byte-seconds.
    cost: u64,
    /// `native` or `browser`.
    engine: &'static str,
    memory_mib: u32,
}

/// Look at the markets.
///
/// All that there are, as this gateway saw them last, each with the age of what it shows. While somebody
/// asks here the gateway looks anew, every few seconds; who asks for the first time may have to ask again.
/// Open to anybody, as every node may look.
#[utoipa::path(
    get, operation_id = "getMarket", path = "/api/v1/market", tag = "swarm",
    responses(
        (status = 200, body = MarketState),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any error"),
    )
)]
pub(super) async fn market(State(state): State<ApiState>) -> Result<Json<MarketState>, Problem> {
    state.node.command(Command::LookAround);
    Ok(Json(state.node.read(MarketState::of).await?))
}

impl MarketState {
    fn of(node: &Node, now: Time) -> MarketState {
        let names = Names::of(node);
        let config = node.market_config();
        let mut all = BTreeMap::new();
        let (mine, copies): (Vec<_>, Vec<_>) =
            node.markets().into_iter().flat_map(|markets| markets.books()).partition(|book| book.mine);
        let books = |books: Vec<BookView<'_>>| {
            let sell = books.into_iter().filter(|book| !book.sellers.is_empty());
            sell.map(|book| (book.market, Commodity::of_book(&book, node.id(), &names, now)))
                .collect::<Vec<_>>()
        };
        // This gateway's own markets are newest; the answers of other operators are newer than copies.
        all.extend(books(copies));
        all.extend(node.seen_markets(now).map(|seen| (seen.market, Commodity::of_seen(&seen, &names))));
        all.extend(books(mine));
        let looked = |kind| {
            let walked = node.walked(kind);
            Looked {
                kind: word(kind),
                whole: walked.is_some_and(|walked| walked.whole),
                age_s: walked.map(|walked| now.since(walked.ended).as_secs()),
            }
        };
        let me = node.id();
        let own = |goods| Offer { seller: me, name: names.get(me), ..Offer::new(&goods) };
        MarketState {
            scheme: config.map(|config| match config.scheme {
                Scheme::Single => "single",
                Scheme::Processor => "processor",
            }),
            rule: config.map(|config| match config.rule {
                Rule::ReverseVickrey => "reverse_vickrey",
                Rule::MaxMin => "max_min",
            }),
            bank: node.bank(),
            commodities: all.into_values().collect(),
            looks: Kind::ALL.map(looked).into(),
            selling: node.selling().map(own).collect(),
        }
    }
}

impl Commodity {
    fn of_book(book: &BookView<'_>, me: NodeId, names: &Names, now: Time) -> Commodity {
        let mut entries: Vec<_> = book.sellers.iter().collect();
        entries.sort_by_key(|entry| (entry.cost, entry.seller.id));
        let kind = book.market.kind;
        let shown = entries.iter().take(OFFERS).map(|entry| (entry.seller.id, entry.goods(kind)));
        Commodity {
            mine: book.mine,
            sellers: entries.len() as u32,
            owner: book.mine.then_some(me),
            age_s: book.mine.then_some(0),
            units: entries.iter().map(|entry| u32::from(entry.units)).fold(0, u32::saturating_add),
            dearest: entries.last().map(|entry| entry.cost.0),
            last: book.last.map(|(price, at)| Paid { price: price.0, ago_s: now.since(at).as_secs() }),
            ..Commodity::new(book.market, shown, names)
        }
    }

    fn of_seen(seen: &Seen<'_>, names: &Names) -> Commodity {
        let (age, summary) = (seen.age.as_secs(), seen.summary);
        Commodity {
            sellers: summary.sellers,
            owner: Some(seen.owner),
            age_s: Some(age),
            units: summary.units,
            dearest: Some(summary.dearest.0),
            last: summary.last.map(|(price, ago)| Paid { price: price.0, ago_s: u64::from(ago) + age }),
            ..Commodity::new(seen.market, summary.offers.iter().copied(), names)
        }
    }

    fn new(market: Market, offers: impl Iterator<Item = (NodeId, Goods)>, names: &Names) -> Commodity {
        let offer = |(seller, goods)| Offer { seller, name: names.get(seller), ..Offer::new(&goods) };
        let offers: Vec<Offer> = offers.map(offer).collect();
        Commodity {
            kind: word(market.kind),
            least: market.least(),
            most: market.next().map_or(Market::MOST, |next| next.least() - 1),
            mine: false,
            sellers: 0,
            cheapest: offers.first().map(|offer| offer.cost),
            offers,
            owner: None,
            age_s: None,
            units: 0,
            dearest: None,
            last: None,
        }
    }
}

impl Offer {
    fn new(goods: &Goods) -> Offer {
        Offer {
            seller: NodeId([0; 32]),
            name: String::new(),
            kind: word(goods.kind),
            capacity: goods.capacity,
            units: goods.units,
            minutes: goods.minutes,
            cost: goods.cost.0,
            engine: match goods.engine {
                Platform::Native => "native",
                Platform::Browser => "browser",
            },
            memory_mib: goods.memory_mib,
        }
    }
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Cycles => "cycles",
        Kind::Checkpoints => "checkpoints",
        Kind::Files => "files",
    }
}

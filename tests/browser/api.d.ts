// Payloads of the HTTP API. Made by api-types.mjs from the binary's OpenAPI document: do not edit.

declare namespace Api {
  interface Blob {
    id: string;
    len: number;
  }

  interface BlobList {
    blobs: Array<Blob>;
  }

  type Branch = TreeNode & Free;

  interface Commodity {
    age_s?: number | null;
    cheapest?: number | null;
    dearest?: number | null;
    kind: string;
    last?: null | Paid;
    least: number;
    mine: boolean;
    most: number;
    offers: Array<Offer>;
    owner?: string | null;
    sellers: number;
    units: number;
  }

  type Connection = "tcp" | "websocket" | "webrtc" | "relay";

  interface DataChannels {
    failed: number;
    opened: number;
    refused: number;
    relayed: number;
    unanswered: number;
    unreached: number;
  }

  interface File {
    chunks: number;
    copies: number;
    encrypted: boolean;
    held: number;
    id: string;
    keepers: Array<Keeper>;
    kept: number;
    len: number;
    lost: Array<Lost>;
    max_price: number;
    name?: string | null;
    names: Array<string>;
    paid: number;
    put_ms: number;
    reason: string;
    state: string;
  }

  interface FileList {
    files: Array<File>;
    kept: KeptHere;
    recipient?: string | null;
  }

  interface FileRequest {
    base64?: string | null;
    blob?: string | null;
    path: string;
  }

  type FindName = "nearest" | "cheapest" | "fitting";

  interface Fitting {
    requires: Requires;
    waits?: null | Waits;
  }

  interface Free {
    free_at_least: number;
    free_at_most: number;
    slots: number;
  }

  interface Health {
    status: string;
  }

  interface Invite {
    amount: number;
    code: string;
  }

  interface Job {
    by_node: Array<NodeShare>;
    cost?: null | JobCost;
    cpu_s: number;
    duplicates: number;
    ended_at?: string | null;
    fitting?: null | Fitting;
    id: string;
    lost_placements: number;
    name: string;
    queue?: Array<QueueStep>;
    reason: string;
    short: string;
    state: JobState;
    submitted_at: string;
    units: UnitCounts;
  }

  interface JobCost {
    held: number;
    most: number;
    paid: number;
  }

  interface JobList {
    jobs: Array<Job>;
    next?: string | null;
  }

  interface JobRequest {
    arguments?: Array<string>;
    bit_exact?: boolean;
    checkpoint?: number | null;
    environment?: Record<string, string>;
    files?: Array<FileRequest>;
    find?: null | FindName;
    fuel_limit?: number | null;
    max_price?: number | null;
    max_price_job?: number | null;
    max_retries?: number;
    memory_limit?: number | null;
    min_speed?: number | null;
    name?: string | null;
    on_loss?: OnLoss;
    output_limit?: number | null;
    owner?: OwnerName;
    priority?: number;
    program: string;
    requires?: null | Requires;
    stdin?: string | null;
    stdin_base64?: string | null;
    sweep?: null | SweepRequest;
    threads?: null | Threads;
    time_limit?: number | null;
    units?: Array<UnitRequest> | null;
  }

  type JobState = "waiting" | "running" | "done" | "failed" | "cancelled";

  interface JourneySpan {
    from: number;
    platform: Platform;
    runner: string;
    to: number;
  }

  interface Keeper {
    chunks: number;
    due: number;
    kept: boolean;
    name: string;
    node: string;
    price?: number | null;
    short: string;
    until_ms: number;
  }

  interface KeptHere {
    bytes: number;
    files: number;
    given: number;
  }

  interface Looked {
    age_s?: number | null;
    kind: string;
    whole: boolean;
  }

  interface Lost {
    name: string;
    node: string;
    short: string;
    why: string;
  }

  interface MarketState {
    bank?: string | null;
    commodities: Array<Commodity>;
    looks: Array<Looked>;
    rule?: string | null;
    scheme?: string | null;
    selling: Array<Offer>;
  }

  interface MigrateRequest {
    to?: string | null;
  }

  type Moved = Unit & { standstill_ms: number; };

  interface Network {
    addresses: Array<string>;
    data_channels?: null | DataChannels;
    gateway: boolean;
    guest_because?: string | null;
    invite_required: boolean;
    name: string;
    node: string;
    peer_id: string;
    reached_at?: string | null;
    relaying?: null | Relaying;
    version: string;
  }

  interface NewInvite {
    amount: number;
  }

  interface NewName {
    name: string;
  }

  interface Node {
    connection?: null | Connection;
    cpu_s: number;
    free: number;
    gateway: boolean;
    guest: boolean;
    held: number;
    id: string;
    me: boolean;
    name: string;
    platform: Platform;
    reachable: boolean;
    short: string;
    silent_s: number;
    slots: number;
    units_done: number;
    via?: string | null;
  }

  interface NodeList {
    nodes: Array<Node>;
  }

  interface NodeShare {
    cpu_s: number;
    name: string;
    node: string;
    short: string;
    units: number;
  }

  interface Now {
    cpu_share: number;
    reasons: Array<Why>;
    slots: number;
    slots_given?: number | null;
    space_bytes?: number | null;
    task_memory_bytes: number;
    unknown: Array<string>;
    wait_s?: number | null;
    works: boolean;
  }

  interface Offer {
    capacity: number;
    cost: number;
    engine: string;
    kind: string;
    memory_mib: number;
    minutes: number;
    name: string;
    seller: string;
    units: number;
  }

  type OnLoss = "recover" | { wait: number; };

  interface Output {
    base64?: string | null;
    len: number;
    url: string;
  }

  interface OutputFile {
    base64?: string | null;
    len: number;
    path: string;
    url: string;
  }

  interface Owner {
    hops: number;
    key: string;
    owner: RingNode;
    replicas: Array<RingNode>;
  }

  type OwnerName = "gateway" | "ring";

  interface Paid {
    ago_s: number;
    price: number;
  }

  interface PartialList {
    next: number;
    partials: Array<PartialResult>;
  }

  interface PartialResult {
    at: string;
    base64: string;
    number: number;
    thread: number;
  }

  interface PauseRequest {
    paused: boolean;
  }

  type Platform = "native" | "browser";

  type PlatformAsked = "either" | "native" | "browser";

  interface Problem {
    detail: string;
    field?: string | null;
    status: number;
    title: string;
    type: string;
  }

  interface QueueStep {
    at: string;
    waiting: number;
  }

  interface Redeem {
    code: string;
  }

  interface Relaying {
    bytes: number;
    circuits: number;
  }

  interface Requires {
    arch?: string | null;
    disk?: number | null;
    labels?: Record<string, string>;
    memory?: number | null;
    os?: string | null;
    platform?: PlatformAsked;
    speed?: number | null;
  }

  interface Result {
    attempts: number;
    cpu_s: number;
    exit_code?: number | null;
    files: Array<OutputFile>;
    fuel: number;
    index: number;
    journey: Array<JourneySpan>;
    message: string;
    paid: number;
    runner: string;
    stderr: Output;
    stdout: Output;
    success: boolean;
  }

  interface ResultList {
    next?: number | null;
    results: Array<Result>;
  }

  interface RingNode {
    id: string;
    name: string;
    point: string;
    short: string;
  }

  interface RingState {
    after?: string | null;
    fingers: Array<RingNode>;
    joined: boolean;
    me: RingNode;
    predecessor?: null | RingNode;
    successors: Array<RingNode>;
  }

  interface StatementLine {
    amount: number;
    at: string;
    balance: number;
    file?: string | null;
    job?: string | null;
    unit?: number | null;
    why: string;
    with?: string | null;
  }

  interface SweepRequest {
    count: number;
    first?: number;
  }

  interface Thread {
    node?: string | null;
    number: number;
    reason: string;
    state: string;
  }

  interface ThreadList {
    next?: number | null;
    threads: Array<Thread>;
  }

  interface Threads {
    workers: number;
  }

  interface Transfer {
    amount: number;
    to: string;
  }

  interface Tree {
    above: Array<TreeNode>;
    branch: Free;
    children: Array<Branch>;
    joined: boolean;
    level: number;
    me: TreeNode;
    network_slots: number;
    peers: Array<Branch>;
    siblings: Array<TreeNode>;
  }

  interface TreeNode {
    id: string;
    name: string;
    short: string;
  }

  interface Unit {
    attempts: number;
    checkpoint_bytes?: number | null;
    checkpoint_fuel?: number | null;
    checkpoints: number;
    fuel: number;
    index: number;
    journey: Array<JourneySpan>;
    journey_is_cut: boolean;
    keepers: Array<string>;
    lost_fuel: number;
    owner?: string | null;
    paused: boolean;
    price?: number | null;
    reason: string;
    runner?: string | null;
    state: UnitState;
  }

  interface UnitCounts {
    done: number;
    failed: number;
    held: number;
    placed: number;
    total: number;
    waiting: number;
  }

  interface UnitList {
    next?: number | null;
    units: Array<Unit>;
  }

  interface UnitRequest {
    arguments?: Array<string> | null;
    files?: Array<FileRequest>;
    stdin?: string | null;
    stdin_base64?: string | null;
  }

  type UnitState = "waiting" | "placed" | "done" | "failed" | "held" | "cancelled";

  interface View {
    now: Now;
    policy: Record<string, unknown>;
    set: Record<string, unknown>;
    trouble?: string | null;
  }

  interface Waits {
    able: number;
    capable: Array<string>;
    meetings: Array<string>;
    nodes: number;
    running: number;
    weight: number;
  }

  interface Wallet {
    all: number;
    balance: number;
    bank: string;
    first: number;
    held: number;
    node: string;
    pending: number;
    statement: Array<StatementLine>;
    sum?: number | null;
  }

  interface Why {
    reason: string;
    until: string;
  }
}

// Resume store of a tab, for when it is loaded again: who it is, where its units stood, and its own jobs. It is kept
// in IndexedDB under a name that one tab at a time holds, for as long as its node's Worker lives.

/** @import { Change, Entry, Left } from "./messages.js" */

/** Tabs of one origin that stay who they are; what is open beyond that is new each time. Our choice. */
const NAMES = Array.from({ length: 8 }, (_, n) => `tab-${n + 1}`);
/** The Worker of the page's last life has so long to let go of its name, ms. */
const LETTING_GO = 2000;
/** A browser that has not brought anything by then will not, ms. Our choice: jobs may have left hundreds of MiB. */
const PATIENCE = 20_000;
/** First byte of the key of a record of a job (`web/driver/src/storage.rs`). */
const JOBS = 0;

/**
 * `{name, key, records, blobs, save}`, or nothing where it cannot be kept. `last`: the tab's name before. `jobs`: it is
 * to own the jobs that were left, if nobody has them.
 * @param {string | null} last
 * @param {boolean} jobs
 */
export async function takeUp(last, jobs) {
  let late = false;
  /** @type {Promise<never>} */
  const none = new Promise((_, no) => setTimeout(() => {
    late = true;
    no(new Error("the browser's storage does not answer"));
  }, PATIENCE));
  try {
    return await Promise.race([take(last, jobs, () => late), none]);
  } catch (error) {
    console.info(`When this tab is loaded again, its node will be another: ${error instanceof Error ? error.message : error}`);
  }
}

/** @param {string | null} last @param {boolean} jobs @param {() => boolean} late @returns {Promise<Left>} */
async function take(last, jobs, late) {
  const database = await open();
  // Another version of this page may need to change it.
  database.onversionchange = () => database.close();
  const { name, free } = await hold(last, await preferred(database, jobs), late);
  try {
    const left = await read(database, name);
    if (late()) throw new Error("it was read too late");
    return left;
  } catch (error) {
    // This Worker's node is a new one: the node of that name may live in another tab.
    free();
    throw error;
  }
}

/** All that the tab of this name left. @param {IDBDatabase} database @param {string} name @returns {Promise<Left>} */
async function read(database, name) {
  const all = IDBKeyRange.bound([name], [name, []]);
  const get = database.transaction(["keys", "records", "blobs"]);
  /** @param {string} store @returns {Promise<Entry[]>} */
  const entries = async (store) => {
    const [keys, values] = await Promise.all([done(get.objectStore(store).getAllKeys(all)), done(get.objectStore(store).getAll(all))]);
    // Each key is the name of the tab and the id of the entry.
    return keys.map((key, n) => [new Uint8Array(/** @type {[string, ArrayBuffer]} */ (key)[1]), values[n]]);
  };
  const [known, records, blobs] = await Promise.all([done(get.objectStore("keys").get(name)), entries("records"), entries("blobs")]);
  const key = known ?? crypto.getRandomValues(new Uint8Array(32));
  if (!known) await done(database.transaction("keys", "readwrite").objectStore("keys").put(key, name));
  return { name, key, records, blobs, save: (records, blobs, done) => save(database, name, [records, blobs], done) };
}

/**
 * All names, those first whose tabs left jobs, or, for a tab that is to own none, last.
 * @param {IDBDatabase} database
 * @param {boolean} jobs
 */
async function preferred(database, jobs) {
  const records = database.transaction("records").objectStore("records");
  /** @param {string} name */
  const has = async (name) => (await done(records.count(IDBKeyRange.bound([name, new Uint8Array([JOBS])], [name, new Uint8Array([JOBS + 1])])))) > 0;
  const left = await Promise.all(NAMES.map(async (name) => (await has(name)) === jobs));
  return [...NAMES.filter((_, n) => left[n]), ...NAMES.filter((_, n) => !left[n])];
}

/**
 * Writes all of it or nothing. `done` is told when it is durable, or why it is not.
 * @param {IDBDatabase} database
 * @param {string} name
 * @param {[records: Change[], blobs: Change[]]} changes
 * @param {(why?: string) => void} done
 */
function save(database, name, [records, blobs], done) {
  const write = database.transaction(["records", "blobs"], "readwrite");
  /** @param {IDBObjectStore} store @param {Change} change */
  const put = (store, [id, bytes]) => {
    const key = [name, /** @type {BufferSource} */ (id)];
    return bytes ? store.put(bytes, key) : store.delete(key);
  };
  for (const entry of records) put(write.objectStore("records"), entry);
  for (const entry of blobs) put(write.objectStore("blobs"), entry);
  write.oncomplete = () => done();
  write.onabort = () => done(write.error?.message ?? "it gave no reason");
  write.commit();
}

function open() {
  const request = indexedDB.open("manyhands", 2);
  request.onupgradeneeded = ({ oldVersion }) => {
    const database = request.result;
    if (oldVersion === 0) database.createObjectStore("keys");
    // Records of version 1 had other keys. Who the tab is stays.
    for (const name of ["records", "blobs"]) {
      if (oldVersion > 0) database.deleteObjectStore(name);
      database.createObjectStore(name);
    }
  };
  return done(request);
}

/** @template Value @param {IDBRequest<Value>} request @returns {Promise<Value>} */
const done = (request) =>
  new Promise((yes, no) => {
    request.onsuccess = () => yes(request.result);
    request.onerror = () => no(request.error);
  });

/**
 * The name that is this Worker's from now on, and what lets it go: the one it had, or the first of `names` that is free.
 * @param {string | null} last
 * @param {string[]} names
 * @param {() => boolean} late nobody waits for it any more
 */
async function hold(last, names, late) {
  const tried = names.map((name) => ({ name, options: /** @type {LockOptions} */ ({ ifAvailable: true }) }));
  if (last && names.includes(last)) tried.unshift({ name: last, options: { signal: AbortSignal.timeout(LETTING_GO) } });
  for (const { name, options } of tried) {
    const free = await request(name, late, options);
    if (free) return { name, free };
  }
  throw new Error("too many tabs are open");
}

/**
 * If this Worker has the name from now on: what lets it go. Else `null`.
 * @param {string} name
 * @param {() => boolean} late
 * @param {LockOptions} options
 * @returns {Promise<(() => void) | null>}
 */
const request = (name, late, options) =>
  new Promise((held) => {
    /** @param {Lock | null} lock */
    const got = (lock) => {
      if (!lock || late()) return held(null);
      // Until then, or until the Worker ends.
      return new Promise((free) => held(() => free(undefined)));
    };
    navigator.locks.request(`manyhands-${name}`, options, got).catch(() => held(null));
  });

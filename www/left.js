// Resume store of a tab, for when it is loaded again: who it is, where its units stood, and its own jobs. It is kept
// in IndexedDB under a name that one tab at a time holds, for as long as its node's Worker lives.

/** @import { Change, Entry, Left } from "./messages.js" */

/** Tabs of one origin that stay who they are; what is open beyond that is new each time. Our choice. */
const NAMES = Array.from({ length: 8 }, (_, n) => `tab-${n + 1}`);
/** The Worker of the page's last life has so long to let go of its name, ms. */
const LETTING_GO = 2000;
/** A browser that has not brought anything by then will not, ms. */
const PATIENCE = 5000;

/**
 * `{name, key, records, blobs, save}`, or nothing where it cannot be kept. `last`: the tab's name before.
 * @param {string | null} last
 */
export async function takeUp(last) {
  try {
    /** @type {Promise<never>} */
    const late = new Promise((_, no) => setTimeout(no, PATIENCE, new Error("the browser's storage does not answer")));
    return await Promise.race([read(last), late]);
  } catch (error) {
    console.info(`When this tab is loaded again, its node will be another: ${error instanceof Error ? error.message : error}`);
  }
}

/** @param {string | null} last @returns {Promise<Left>} */
async function read(last) {
  const database = await open();
  const name = await hold(last);
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
  return { name, key, records, blobs, save: (...changes) => save(database, name, changes) };
}

/**
 * All of it or nothing, some time soon.
 * @param {IDBDatabase} database
 * @param {string} name
 * @param {[records: Change[], blobs: Change[]]} changes
 */
function save(database, name, [records, blobs]) {
  const write = database.transaction(["records", "blobs"], "readwrite");
  /** @param {IDBObjectStore} store @param {Change} change */
  const put = (store, [id, bytes]) => {
    const key = [name, /** @type {BufferSource} */ (id)];
    return bytes ? store.put(bytes, key) : store.delete(key);
  };
  for (const entry of records) put(write.objectStore("records"), entry);
  for (const entry of blobs) put(write.objectStore("blobs"), entry);
  write.onabort = () => console.warn(`What runs here was not kept for a reload: ${write.error?.message}`);
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
 * The name that is this Worker's from now on: the one it had, or the first that is free.
 * @param {string | null} last
 */
async function hold(last) {
  if (last && NAMES.includes(last) && (await request(last, { signal: AbortSignal.timeout(LETTING_GO) }))) return last;
  for (const name of NAMES) if (await request(name, { ifAvailable: true })) return name;
  throw new Error("too many tabs are open");
}

/**
 * Whether this Worker has the name from now on.
 * @param {string} name
 * @param {LockOptions} options
 * @returns {Promise<boolean>}
 */
const request = (name, options) =>
  new Promise((held) => {
    /** @param {Lock | null} lock */
    const got = (lock) => {
      held(!!lock);
      // Until the Worker ends.
      return lock && new Promise(() => {});
    };
    navigator.locks.request(`manyhands-${name}`, options, got).catch(() => held(false));
  });

// Data channels between this tab and other nodes. Only a page may make connections; their channels are handed over to
// the node's Worker, which says what to do. SDP is read and written there, too (`web/driver/src/channels.rs`).

/** @import { FromNode, ToNode } from "./messages.js" */

/** Connections at a time. Our choice: those to the nodes that a tab works for, and far fewer than a browser allows. */
const MOST = 32;

/**
 * Milliseconds for which a connection outlives its channel: what was written last still has to arrive. Our choice: as
 * servers have it (`native/src/net/rtc/end.rs`).
 */
const LAST = 2000;

/**
 * Whether this browser makes data channels and lets a page hand them over. Others stay with their gateway.
 */
export function handsOver() {
  try {
    const connection = new RTCPeerConnection();
    try {
      const channel = connection.createDataChannel("");
      // Firefox lets a Worker alone receive one, so nobody reads the other port.
      new MessageChannel().port1.postMessage(channel, [channel]);
      return true;
    } finally {
      connection.close();
    }
  } catch {
    return false;
  }
}

/** Connections of one node, by the names of their sessions. */
export class Peers {
  #tell;
  /** @type {Map<string, RTCPeerConnection>} */
  #connections = new Map();

  /** @param {(message: ToNode, transfer?: Transferable[]) => void} tell */
  constructor(tell) {
    this.#tell = tell;
  }

  /** @param {Extract<FromNode, { type: `rtc_${string}` }>} message */
  heard(message) {
    const { session } = message;
    if (message.type === "rtc_open") return this.#open(session, message.offers, message.stun);
    const connection = this.#connections.get(session);
    if (!connection) return;
    switch (message.type) {
      case "rtc_remote":
        return this.#orFail(session, this.#remote(session, connection, message.sdp));
      case "rtc_try":
        for (const candidate of message.candidates) {
          // One that the browser cannot use says nothing of the others.
          connection.addIceCandidate({ candidate, sdpMid: "0" }).catch(() => {});
        }
        return;
      case "rtc_close":
        if (connection.connectionState !== "connected") return this.#close(session);
        setTimeout(() => this.#close(session), LAST);
    }
  }

  /** The node is no more. */
  end() {
    for (const connection of this.#connections.values()) connection.close();
    this.#connections.clear();
  }

  /** @param {string} session @param {boolean} offers @param {string} [stun] */
  #open(session, offers, stun) {
    if (this.#connections.size >= MOST || this.#connections.has(session)) return this.#tell({ type: "rtc", session });
    try {
      const connection = new RTCPeerConnection({ iceServers: stun ? [{ urls: stun }] : [] });
      this.#connections.set(session, connection);
      connection.onicecandidate = ({ candidate }) => {
        if (candidate?.candidate) this.#tell({ type: "rtc", session, candidate: candidate.candidate });
      };
      connection.onconnectionstatechange = () => {
        if (connection.connectionState === "failed") this.#failed(session);
      };
      // Handed over before anything can happen to it, in the task that made it: browsers let it go only then.
      const channel = connection.createDataChannel("", { negotiated: true, id: 0 });
      this.#tell({ type: "rtc", session, channel }, [channel]);
      if (offers) this.#orFail(session, this.#describe(session, connection));
    } catch {
      this.#failed(session);
    }
  }

  /** @param {string} session @param {RTCPeerConnection} connection @param {string} sdp */
  async #remote(session, connection, sdp) {
    const answers = connection.signalingState === "stable";
    await connection.setRemoteDescription({ type: answers ? "offer" : "answer", sdp });
    if (answers) await this.#describe(session, connection);
  }

  /** @param {string} session @param {RTCPeerConnection} connection */
  async #describe(session, connection) {
    await connection.setLocalDescription();
    const sdp = connection.localDescription?.sdp ?? "";
    this.#tell({ type: "rtc", session, sdp });
  }

  /** @param {string} session @param {Promise<void>} step */
  #orFail(session, step) {
    step.catch(() => this.#failed(session));
  }

  /** @param {string} session */
  #failed(session) {
    this.#close(session);
    this.#tell({ type: "rtc", session });
  }

  /** @param {string} session */
  #close(session) {
    this.#connections.get(session)?.close();
    this.#connections.delete(session);
  }
}

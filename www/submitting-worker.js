// The node of the page that submits, in a Worker of its own: it has all services and owns that page's jobs.
import init, { WebNode, faults_of } from "/pkg/web_node_submits.js";
import { serve } from "/serve-node.js";

/** @type {WebNode | undefined} */
let node;

serve({ init, WebNode, faults_of }, (started) => (node = started), {
  submit: ({ n, job, program, input }) => node?.submit(n, job, program, input),
  cancel: ({ job }) => node?.cancel(job),
  forget: ({ job }) => node?.forget(job),
  results: ({ n, job, from, limit, most }) => node?.results(n, job, from, limit, most),
  redeem: ({ n, code }) => node?.redeem(n, code),
});

// The node of the donate page, in a Worker of its own.
import init, { WebNode, faults_of } from "/pkg/web_node.js";
import { serve } from "/serve-node.js";

serve({ init, WebNode, faults_of });

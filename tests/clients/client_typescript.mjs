// One official client as a process: the MCP TypeScript SDK.
//
// Reads commands as JSON lines and answers with JSON lines, so that one set of tests drives every SDK (see client.py).
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const modules = createRequire(join(process.env.CLIENT_MODULES, "x.js"));
const load = (name) => import(pathToFileURL(modules.resolve(`@modelcontextprotocol/sdk/${name}`)));
const { Client } = await load("client/index.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");

const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");
const options = JSON.parse(process.argv[2]);
const running = new Map();

async function perform(client, command, signal) {
  const how = { signal, timeout: 120_000 };
  if (command.op === "ping") return client.ping(how);
  if (command.op === "tools") return (await client.listTools({}, how)).tools;
  const result = await client.callTool({ name: command.tool, arguments: command.arguments }, undefined, how);
  return {
    isError: result.isError ?? false,
    texts: result.content.map((block) => block.text),
    structured: result.structuredContent ?? null,
  };
}

async function run(client, command) {
  const leave = new AbortController();
  running.set(command.id, leave);
  try {
    say({ id: command.id, result: await perform(client, command, leave.signal) });
  } catch (e) {
    if (!leave.signal.aborted) say({ id: command.id, failure: { code: e.code ?? null, message: String(e.message) } });
  }
}

try {
  const client = new Client({ name: "tests", version: "1" });
  const transport = new StreamableHTTPClientTransport(new URL(options.url), {
    requestInit: { headers: { Authorization: `Bearer ${options.token}` } },
  });
  await client.connect(transport);
  say({
    id: 0,
    result: {
      protocol: transport.protocolVersion,
      server: client.getServerVersion().name,
      instructions: client.getInstructions(),
      session: transport.sessionId ?? null,
    },
  });
  for await (const line of createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    if (command.op === "abandon") running.get(command.call).abort();
    else run(client, command);
  }
  process.exit(0);
} catch (e) {
  say({ id: null, failure: { code: e.code ?? null, message: `${e.name}: ${e.message}` } });
  process.exit(1);
}

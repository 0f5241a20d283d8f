// A loopback proxy that adds `Authorization` to every request, for a test suite that cannot send one.
import { createServer, request } from "node:http";

const [port, token] = process.argv.slice(2);
const server = createServer((from, to) => {
  const headers = { ...from.headers, authorization: `Bearer ${token}` };
  const onwards = request({ host: "127.0.0.1", port, path: from.url, method: from.method, headers }, (answer) => {
    to.writeHead(answer.statusCode, answer.headers);
    to.flushHeaders();
    answer.pipe(to);
  });
  onwards.on("error", () => to.destroy());
  to.on("close", () => onwards.destroy());
  from.pipe(onwards);
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));

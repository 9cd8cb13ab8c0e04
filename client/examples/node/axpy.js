// Compiles alpha * x + y on an XLA service and runs it: `npm install`, then
//
//     node axpy.js 127.0.0.1:1685 [token]
//
// Nothing is generated: the .proto files are read when the program starts.

"use strict";

const path = require("node:path");
const grpc = require("@grpc/grpc-js");
const protoLoader = require("@grpc/proto-loader");

const PROTOS = path.join(__dirname, "../../../protos");

const AXPY = `HloModule axpy

ENTRY axpy {
  alpha = f32[] parameter(0)
  x = f32[3] parameter(1)
  y = f32[3] parameter(2)
  alphas = f32[3] broadcast(alpha), dimensions={}
  product = f32[3] multiply(alphas, x)
  ROOT sum = f32[3] add(product, y)
}
`;

// Handles are below 2 ** 53, so numbers hold them exactly.
const { xla } = grpc.loadPackageDefinition(
  protoLoader.loadSync(["xla/xla_service.proto", "xla/xla_extension.proto"], {
    includeDirs: [PROTOS],
    keepCase: true,
    longs: Number,
    enums: String,
  }),
);

/** Return `call(name, request)` for the rpcs of a stub: a promise of the response. */
function caller(stub, metadata) {
  return (name, request) =>
    new Promise((resolve, reject) => {
      stub[name](request, metadata, (error, response) => (error ? reject(error) : resolve(response)));
    });
}

/** Return the literal of an array of f32, in row-major layout. */
function literal(dimensions, elements) {
  const minor_to_major = dimensions.map((_, number) => number).reverse();
  const shape = { element_type: "F32", dimensions, layout: { minor_to_major } };
  return { shape, f32s: elements };
}

async function main(target, token) {
  const metadata = new grpc.Metadata();
  // Over TLS: grpc.credentials.createSsl() here.
  const credentials = grpc.credentials.createInsecure();
  if (token) metadata.set("authorization", `Bearer ${token}`);
  const service = new xla.XlaService(target, credentials);
  const extension = new xla.XlaExtensionService(target, credentials);
  const call = caller(service, metadata);
  const extended = caller(extension, metadata);

  // What the calls below keep on the server belongs to this session.
  const session = await extended("OpenSession", { client: "axpy.js" });
  metadata.set("xla-session", session.token);
  try {
    const compiled = await extended("CompileModule", { module: { hlo_text: AXPY } });
    const values = [literal([], [2]), literal([3], [1, 2, 3]), literal([3], [10, 20, 30])];
    const uploads = values.map((value) => call("TransferToServer", { literal: value }));
    const datas = (await Promise.all(uploads)).map((response) => response.data);
    const { output } = await call("Execute", { handle: compiled.handle, arguments: datas });
    const result = await call("TransferToClient", { data: output });
    console.log(compiled.name, result.literal.f32s);
  } finally {
    await extended("CloseSession", {});
    service.close();
    extension.close();
  }
}

const [target = "127.0.0.1:1685", token] = process.argv.slice(2);
main(target, token).catch((error) => {
  console.error(error.details ?? error.message);
  process.exitCode = 1;
});

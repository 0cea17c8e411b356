/**
 * Runs client commands of the built program one after the other in this process, each as if it were alone: its own arguments,
 * variables, folder, input and outputs, and an exit code. Started by `command-host.ts`.
 */
import { globalAgent } from 'node:http';
import { Readable, Writable } from 'node:stream';
import { pathToFileURL } from 'node:url';
import { inspect } from 'node:util';

/** @typedef {{ file: string, args: readonly string[], env: Readonly<Record<string, string>>, folder: string, input: string }} Asked */

/** @typedef {(args: readonly string[]) => Promise<void>} Main */

let runs = 0;

/** What runs a command, of each program that was loaded here. @type {Map<string, Main>} */
const loaded = new Map();

/**
 * The first command runs as the program is loaded. If it ends the process, or fails, the next one loads the program anew.
 * @param {string} file @param {readonly string[]} args
 */
async function runCommand(file, args) {
  const main = loaded.get(file);
  if (main !== undefined) return main(args);
  runs += 1;
  /** @type {{ main: Main }} */
  const program = await import(`${pathToFileURL(file).href}?run=${runs}`);
  loaded.set(file, program.main);
}

/** @param {'stdin' | 'stdout' | 'stderr'} name @param {unknown} value */
const replace = (name, value) => Object.defineProperty(process, name, { configurable: true, value });

function collect() {
  /** @type {Buffer[]} */
  const chunks = [];
  const stream = new Writable({
    write(chunk, _encoding, done) {
      chunks.push(Buffer.from(chunk));
      done();
    },
  });
  return { stream, text: () => Buffer.concat(chunks).toString() };
}

/** @param {Asked} asked */
async function run({ file, args, env, folder, input }) {
  const [stdout, stderr] = [collect(), collect()];
  process.chdir(folder);
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, env);
  process.argv = [process.execPath, file, ...args];
  process.exitCode = undefined;
  replace('stdin', Readable.from(input === '' ? [] : [Buffer.from(input)]));
  replace('stdout', stdout.stream);
  replace('stderr', stderr.stream);
  const exited = new Promise((resolve) => {
    process.exit = (code) => {
      resolve(code ?? process.exitCode ?? 0);
      throw new Error('the process would have ended here');
    };
    process.once('uncaughtException', (error) => {
      stderr.stream.write(`${inspect(error)}\n`);
      resolve(1);
    });
  });
  const done = runCommand(file, args).then(
    () => process.exitCode ?? 0,
    (error) => {
      stderr.stream.write(`${inspect(error)}\n`);
      return 1;
    },
  );
  const code = await Promise.race([done, exited]);
  process.removeAllListeners('uncaughtException');
  // A process that ends leaves no connection.
  globalAgent.destroy();
  return { code, stdout: stdout.text(), stderr: stderr.text() };
}

process.on('message', (/** @type {Asked} */ asked) => {
  void run(asked).then((outcome) => process.send?.(outcome));
});
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));

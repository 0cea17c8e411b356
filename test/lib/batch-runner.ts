/**
 * Owns the running of many short commands inside a namespace. Each is started by a small process that stays there, one after the other:
 * a test process is large, and the kernel copies the map of its memory for every program that it starts.
 */
import type { ChildProcess } from 'node:child_process';
import { CommandFailed, type Namespace, type Outcome } from './netns.ts';

/** Reads the lengths of the input and of each argument, then these; answers with the exit code, two lengths, and what the command wrote. */
const script = String.raw`
use strict; binmode STDIN; binmode STDOUT; $| = 1;
sub take {
  my ($length) = @_; my $all = '';
  while (length $all < $length) { read(STDIN, $all, $length - length $all, length $all) or exit 0 }
  return $all;
}
sub written { my ($file) = @_; local $/; seek $file, 0, 0; my $all = <$file>; return defined $all ? $all : '' }
while (defined(my $head = <STDIN>)) {
  my ($length, @lengths) = split ' ', $head;
  my @argv = map { take($_) } @lengths;
  my ($in, $out, $err);
  for ($in, $out, $err) { open $_, '+>', undef or die "no scratch file: $!"; binmode $_ }
  print $in take($length); seek $in, 0, 0;
  my $pid = fork; defined $pid or die "no process: $!";
  if ($pid == 0) {
    open STDIN, '<&', $in; open STDOUT, '>&', $out; open STDERR, '>&', $err;
    exec { $argv[0] } @argv or do { print STDERR "$argv[0]: $!\n"; exit 127 };
  }
  waitpid $pid, 0;
  my $code = $? & 127 ? 128 : $? >> 8;
  my ($said, $failed) = (written($out), written($err));
  print $code, ' ', length $said, ' ', length $failed, "\n", $said, $failed;
}
`;

class BatchRunner {
  readonly #child: ChildProcess;
  readonly #waiting: { readonly resolve: (outcome: Outcome) => void; readonly reject: (error: Error) => void }[] = [];
  #chunks: Buffer[] = [];
  #size = 0;
  /** The whole length of the answer that is under way, once its first line is here. */
  #wanted = 0;
  #said = '';

  constructor(namespace: Namespace) {
    this.#child = namespace.spawn(['perl', '-e', script], { stdio: ['pipe', 'pipe', 'pipe'] });
    this.#child.stdin?.on('error', () => {}); // Told by its end.
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => (this.#said += text));
    this.#child.stdout?.on('data', (chunk: Buffer) => this.#read(chunk));
    this.#child.once('close', (code, signal) => {
      const error = new Error(`the batch runner ended with ${code ?? signal}: ${this.#said}`);
      for (const { reject } of this.#waiting.splice(0)) reject(error);
    });
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  attempt(argv: readonly string[], input: string): Promise<Outcome> {
    const parts = [...argv, input].map((part) => Buffer.from(part));
    const lengths = [parts.at(-1)?.length ?? 0, ...parts.slice(0, -1).map(({ length }) => length)];
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#child.stdin?.write(Buffer.concat([Buffer.from(`${lengths.join(' ')}\n`), ...parts]));
    });
  }

  #read(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    while (this.#size > 0 && this.#size >= this.#wanted) {
      const all = Buffer.concat(this.#chunks);
      this.#chunks = [all];
      const end = all.indexOf('\n');
      if (end < 0) return;
      const [code = 0, out = 0, err = 0] = all.toString('latin1', 0, end).split(' ').map(Number);
      this.#wanted = end + 1 + out + err;
      if (this.#size < this.#wanted) return;
      const [first, last] = [end + 1 + out, this.#wanted];
      const outcome = { code, stdout: all.toString('utf8', end + 1, first), stderr: all.toString('utf8', first, last) };
      this.#chunks = [all.subarray(last)];
      this.#size -= last;
      this.#wanted = 0;
      this.#waiting.shift()?.resolve(outcome);
    }
  }
}

const runners = new WeakMap<Namespace, BatchRunner>();

/** Runs a short command inside to its end, whatever that is, after those before it. */
export function attemptQuickly(namespace: Namespace, argv: readonly string[], input = ''): Promise<Outcome> {
  const known = runners.get(namespace);
  const runner = known?.isRunning === true ? known : new BatchRunner(namespace);
  runners.set(namespace, runner);
  return runner.attempt(argv, input);
}

/** Like `attemptQuickly`; throws `CommandFailed` unless it succeeds. */
export async function runQuickly(namespace: Namespace, argv: readonly string[], input = ''): Promise<Outcome> {
  const outcome = await attemptQuickly(namespace, argv, input);
  if (outcome.code !== 0) throw new CommandFailed(argv, outcome, input);
  return outcome;
}

/** Owns a real container engine inside a namespace: Podman with a container of its own making, gone with the namespace however it ends. */
import type { ChildProcess } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Namespace } from './netns.ts';

/**
 * Runs in a process namespace of its own, so that whatever the engine leaves behind ends with this script. The machine's
 * control groups may be of two kinds at once, which the engine refuses: it gets a view of the newer kind alone.
 */
const script = `
set -e
mount -t cgroup2 none /sys/fs/cgroup
work=$1
mkdir -p "$work/root/bin" "$work/root/www"
cp "$(command -v busybox)" "$work/root/bin/busybox"
for tool in sh httpd nc; do ln -s busybox "$work/root/bin/$tool"; done
echo hello > "$work/root/www/index.html"
tar -C "$work/root" -cf "$work/image.tar" .
engine() {
  podman --root "$work/storage" --runroot "$work/run" --tmpdir "$work/tmp" --network-config-dir "$work/networks" \\
    --storage-driver vfs --cgroup-manager cgroupfs "$@"
}
engine import "$work/image.tar" web > /dev/null
engine network create --ipv6 --subnet 10.89.5.0/24 --subnet fd89:5::/64 lab > /dev/null
engine run --detach --name web --pull never --cgroups disabled --network lab --publish 8080:80 \\
  --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 web /bin/httpd -f -p 80 -h /www > /dev/null
echo ready
while read -r line; do
  set +e
  answer=$(engine exec web /bin/sh -c "$line" 2> /dev/null < /dev/null)
  echo "answer $answer"
done
`;

export class Podman {
  readonly #child: ChildProcess;
  readonly #folder: string;
  readonly #lines: AsyncIterator<string>;
  #said = '';

  private constructor(child: ChildProcess, folder: string) {
    this.#child = child;
    this.#folder = folder;
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (this.#said += text));
    if (child.stdout === null) throw new Error('the container engine has no output');
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  }

  /** A container on the device that serves a page on port 80, published as port 8080 in both families. */
  static async open(device: Namespace): Promise<Podman> {
    const folder = await mkdtemp(join(tmpdir(), 'rf-podman-'));
    const argv = ['unshare', '--pid', '--fork', '--kill-child', '--mount', '--mount-proc', 'sh', '-c', script];
    const child = device.spawn([...argv, 'podman', folder], { stdio: ['pipe', 'pipe', 'pipe'] });
    const podman = new Podman(child, folder);
    const { value, done } = await podman.#lines.next();
    if (done === true || value !== 'ready') throw new Error(`the container does not run: ${podman.#said}`);
    return podman;
  }

  /** What a command inside the container says. */
  async inside(command: string): Promise<string> {
    this.#child.stdin?.write(`${command}\n`);
    const { value } = await this.#lines.next();
    return String(value).replace(/^answer ?/, '');
  }

  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.#child.once('close', resolve));
    this.#child.kill('SIGKILL');
    await ended;
    await rm(this.#folder, { recursive: true, force: true });
  }
}

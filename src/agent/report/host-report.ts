/**
 * Owns the report on the machine of an agent, running or not: kernel, nft, and whether the machine was ever enrolled.
 */
import { stat } from 'node:fs/promises';
import { release } from 'node:os';
import { CannotRun, commandRunner } from '../host/run-command.ts';

export interface HostReport {
  readonly kernel: string;
  /** What nft says of itself; undefined where it cannot be run. */
  readonly nft: string | undefined;
  /** Whether an agent keeps its state here. */
  readonly hasState: boolean;
}

export async function readHost(state: string): Promise<HostReport> {
  const [nft, hasState] = await Promise.all([
    nftVersion(),
    stat(state).then(
      () => true,
      () => false,
    ),
  ]);
  return { kernel: release(), nft, hasState };
}

async function nftVersion(): Promise<string | undefined> {
  try {
    const { code, stdout } = await commandRunner([])(['nft', '--version']);
    return code === 0 ? stdout.trim() : undefined;
  } catch (error) {
    if (error instanceof CannotRun) return undefined;
    throw error;
  }
}

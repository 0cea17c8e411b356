/** Owns the people whose commands are tested: in every test the owner and a member of an organization of its own. */
import { beforeEach, expect } from 'vitest';
import type { Outcome, Program } from '../lib/program.ts';
import { newPlace, type Place, type TestServer, type TestServerOptions } from '../lib/server.ts';
import { useProgram, useServer } from '../lib/stage.ts';

export interface People {
  readonly server: TestServer;
  readonly place: Place;
  readonly owner: Program;
  readonly member: Program;
}

/** Called once by a file. */
export function usePeople(server?: () => TestServerOptions): People {
  const stage = useServer(server);
  const installed = useProgram();
  let homes = 0;
  let place: Place;
  let owner: Program;
  let member: Program;
  beforeEach(async () => {
    homes += 1;
    place = await newPlace(stage.server);
    const env = { RINGFENCE_SERVER: stage.server.url, RINGFENCE_ORG: place.org };
    owner = await installed.program.as(`owner-${homes}`, { ...env, RINGFENCE_TOKEN: place.owner.token });
    member = await installed.program.as(`member-${homes}`, { ...env, RINGFENCE_TOKEN: place.member.token });
  });
  return {
    get server() {
      return stage.server;
    },
    get place() {
      return place;
    },
    get owner() {
      return owner;
    },
    get member() {
      return member;
    },
  };
}

/** What a command printed, which must have succeeded. */
export async function done(outcome: Promise<Outcome>): Promise<string> {
  const { code, stdout, stderr } = await outcome;
  expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
  return stdout;
}

export const json = async (outcome: Promise<Outcome>) => JSON.parse(await done(outcome));

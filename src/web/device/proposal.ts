/** Owns the question which rules would admit the observed traffic of a device, or of the devices with its labels. */
import { useQuery, type UseQueryResult } from '@tanstack/react-query';
import type { Proposal } from '../../api/usage/proposal.ts';
import { useLive } from '../state/organization.ts';
import { useSession } from '../state/session.ts';

const dayMs = 86_400_000;

/** The devices that it is for. */
export type ProposalFor = { readonly device_ids: readonly string[] } | { readonly labels: readonly string[] };

/** Agents report once a minute. */
const everyMs = 60_000;

export function useProposal(of: ProposalFor, days: number, isAsked = true): UseQueryResult<Proposal> {
  const { client } = useSession();
  const { id: org } = useLive();
  return useQuery({
    queryKey: ['proposal', org, of, days],
    queryFn: ({ signal }) =>
      client.propose(org, { ...of, since: new Date(Date.now() - days * dayMs).toISOString() }, { signal }),
    enabled: isAsked,
    retry: false,
    // It is asked again only while there is nothing: the answer costs the server more than most.
    refetchInterval: ({ state }) => (state.data?.observed === 0 ? everyMs : false),
  });
}

/** Owns the activity page: the audit log for owners, and live changes for members. */
import type { ReactNode } from 'react';
import { AuditFeed } from '../activity/audit-feed.tsx';
import { LiveFeed } from '../activity/live-feed.tsx';
import { useRights } from '../state/organization.ts';
import { Page } from '../components/page.tsx';

export function ActivityPage(): ReactNode {
  const { isOwner } = useRights();
  return (
    <Page
      title="Activity"
      about={
        isOwner
          ? 'Who did what, with before and after. Changes of groups and devices can be taken back.'
          : 'What changes while this page is open.'
      }
    >
      {isOwner ? <AuditFeed /> : <LiveFeed />}
    </Page>
  );
}

/** Owns the activity page: the audit log for owners, and live changes for members. */
import type { ReactNode } from 'react';
import { AuditFeed } from '../activity/audit-feed.tsx';
import { LiveFeed } from '../activity/live-feed.tsx';
import { useRights } from '../state/organization.ts';
import { PageTitle } from '../components/page-title.tsx';

export function ActivityPage(): ReactNode {
  const { isOwner } = useRights();
  return (
    <div className="page">
      <div className="page-head">
        <div>
          <PageTitle>Activity</PageTitle>
          <p className="dimmed">
            {isOwner
              ? 'Who did what, with before and after. Changes of groups and devices can be taken back.'
              : 'What changes while this page is open.'}
          </p>
        </div>
      </div>
      {isOwner ? <AuditFeed /> : <LiveFeed />}
    </div>
  );
}

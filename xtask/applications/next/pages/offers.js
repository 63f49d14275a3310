import crypto from 'node:crypto';
import { forAll } from '../lib/shop';

export { default } from '../lib/view';
export function getServerSideProps({ res }) {
  res.setHeader('Vary', 'Cookie');
  res.setHeader('Cache-Control', 'public, max-age=300');
  res.setHeader('Set-Cookie', 'visit=' + crypto.randomBytes(18).toString('base64url') + '; Path=/');
  return { props: forAll('Offers', Array(80).fill('Two for one.')) };
}

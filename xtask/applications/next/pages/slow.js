import { page } from '../lib/shop';

export { default } from '../lib/view';
export async function getServerSideProps(context) {
  await new Promise((resolve) => setTimeout(resolve, 300));
  return page(context, 'Slow', []);
}

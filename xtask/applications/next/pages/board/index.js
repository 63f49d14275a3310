import { forAll, redirect, sent, shop, wrongToken } from '../../lib/shop';

export { default } from '../../lib/view';
export async function getServerSideProps(context) {
  if (context.req.method === 'POST') {
    const form = await sent(context);
    if (!form) return wrongToken();
    shop.posts.push(form.fields.text);
    return redirect('/board');
  }
  context.res.setHeader('Cache-Control', 'public, max-age=30');
  return { props: forAll('Board', shop.posts) };
}

// y = x * factor, by hand: a work-group of 64 scales 64 numbers. It gets its arguments at s[0:1].
	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
	.text
	.globl	scale
	.p2align	8
	.type	scale,@function
scale:
	s_load_dwordx4 s[4:7], s[0:1], 0x0
	s_load_dword s8, s[0:1], 0x10
	v_lshl_add_u32 v0, s2, 6, v0
	v_lshlrev_b32_e32 v1, 2, v0
	s_waitcnt lgkmcnt(0)
	global_load_dword v2, v1, s[4:5]
	s_waitcnt vmcnt(0)
	v_mul_f32_e32 v2, s8, v2
	global_store_dword v1, v2, s[6:7]
	s_endpgm
.Lend:
	.size	scale, .Lend-scale

	.rodata
	.p2align	6
	.amdhsa_kernel scale
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_user_sgpr_count 2
		.amdhsa_kernarg_size 24
		.amdhsa_next_free_vgpr 4
		.amdhsa_next_free_sgpr 16
		.amdhsa_accum_offset 4
	.end_amdhsa_kernel
